"""Firebase Cloud Messaging, HTTP v1: limits, checks and rendering. One request per target."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from dispatcher.channels import fcm_answers
from dispatcher.channels.apns import aps_with_numbers
from dispatcher.channels.push_message import PushMessage, read_message
from dispatcher.channels.rules.apns import COLLAPSE_ID
from dispatcher.channels.rules.fcm import MAX_PAYLOAD_BYTES, MAX_TTL_S, TARGET_FIELDS, refusals, value_at
from dispatcher.channels.spec import ChannelSpec, Handling, Problem, Rendering, TargetRequest, compiled, given, merged
from dispatcher.channels.template import TARGET, WholeNumber
from dispatcher.model.tier import Tier

MAX_BODY_BYTES = 32 * 1024
"""FCM's limit of 4,096 bytes is one of each platform's part; beyond this no message is within it."""
_TOKEN = re.compile(r"[A-Za-z0-9_:.%-]{20,4096}")
_encode, _decode = msgspec.json.Encoder().encode, msgspec.json.Decoder().decode
_PRIORITY = {Tier.HIGH: "HIGH", Tier.MEDIUM: "NORMAL", Tier.LOW: "NORMAL"}


class FcmSpec(ChannelSpec):
    """The rules of FCM. Its limit applies to the message without its target."""

    table = fcm_answers.TABLE

    def own_problems(self, message: PushMessage) -> list[Problem]:
        return [
            Problem(f"message.fcm.{name}", "names a target", "targets belong in the audience")
            for name in TARGET_FIELDS
            if name in message.fcm
        ]

    def request_problems(self, message: PushMessage, request: TargetRequest, language: str = "") -> list[Problem]:
        found = refusals(_decode(request.body)["message"])
        return [replace(each, field=_field(message, each.field, language)) for each in found]

    def depends_on_variables(self, message: PushMessage, /) -> bool:
        """Variables in the options and in the keys of the data do."""
        data = (message.data, *(texts.data or {} for texts in message.locales.values()))
        return b"{{" in _encode([message.fcm, *map(list, data)])

    def ignored(self, message: PushMessage, /) -> list[str]:
        if any(_is_shown(message.localized(language)) for language in ("", *message.locales)):
            return []
        named = given({"sound": message.sound, "badge": message.badge, "category": message.category})
        return [f"{name} has no effect on Android devices, since there is neither title nor body" for name in named]

    def document(self, message: PushMessage) -> dict[str, Any]:
        # With every field that depends on the moment of sending.
        return _fields(message, Tier.MEDIUM, MAX_TTL_S)

    def max_payload_bytes(self, _message: PushMessage) -> int:
        return MAX_PAYLOAD_BYTES

    def check_target(self, target: str) -> str | None:
        return None if _TOKEN.fullmatch(target) else "is not an FCM registration token"

    def render(self, message: Mapping[str, Any], handling: Handling) -> Rendering:
        def document(texts: PushMessage) -> dict[str, Any]:
            ttl_s = handling.kept_s(texts, MAX_TTL_S)
            return {"message": {**_fields(texts, handling.tier, ttl_s), "token": TARGET}}

        return Rendering({}, compiled(read_message(message), document), MAX_BODY_BYTES)


def _fields(message: PushMessage, tier: Tier, ttl_s: int | None) -> dict[str, Any]:
    """Return FCM's message without its target. Fields under `fcm` win over those made from the common ones.

    `sound`, `category`, `badge` and `collapse` have a field for Android and one for iOS. Those of an Android
    notification are left out if there is none: they would make one without a text.
    """
    notification = given({"title": message.title, "body": message.body, "image": message.image})
    shown = {"channel_id": message.category, "sound": message.sound, "notification_count": message.badge_value}
    android: dict[str, Any] = {"priority": _PRIORITY[tier]}
    if ttl_s is not None:
        android["ttl"] = f"{ttl_s}s"
    android |= given({"collapse_key": message.collapse, "notification": given(shown) if _is_shown(message) else {}})
    aps = given({"category": message.category, "sound": message.sound, "badge": message.badge_value})
    ios = given({"headers": given({COLLAPSE_ID: message.collapse}), "payload": given({"aps": aps})})
    fields = {"android": android, **given({"notification": notification, "data": message.data, "apns": ios})}
    return _with_numbers(merged(fields, message.fcm))


def _is_shown(message: PushMessage) -> bool:
    """Return whether Android shows something."""
    return bool(message.is_shown or message.image or "notification" in message.fcm)


def _with_numbers(fields: dict[str, Any]) -> dict[str, Any]:
    """Make numbers of the variables and texts in the fields that are numbers on devices."""
    aps = value_at(fields, "message.apns.payload.aps")
    count = value_at(fields, "message.android.notification.notification_count")
    numbers: dict[str, Any] = {"apns": {"payload": {"aps": aps_with_numbers(aps)}}} if isinstance(aps, Mapping) else {}
    if isinstance(count, str):
        numbers["android"] = {"notification": {"notification_count": WholeNumber(count, "notification_count")}}
    return merged(fields, numbers)


def _field(message: PushMessage, path: str, language: str) -> str:
    """Return the field of the message behind a path of FCM's."""
    name, _, key = path.removeprefix("message.").partition(".")
    options = message.fcm.get(name)
    if name == "data" and key and not (isinstance(options, Mapping) and key in options):
        texts = message.locales.get(language)
        return f"message.locales.{language}.{name}.{key}" if texts and key in (texts.data or {}) else path
    if name in message.fcm:
        return f"message.fcm.{path.removeprefix('message.')}"
    return f"message.locales.{language}" if language else "message"
