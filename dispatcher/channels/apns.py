"""Apple Push Notification service: limits, checks, headers and rendering. One request per target."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid5

from dispatcher.channels import apns_answers
from dispatcher.channels.push_message import CollapseText, PushMessage, read_message
from dispatcher.channels.rules.apns import (
    COLLAPSE_ID,
    NUMBERS,
    PRIORITY,
    PUSH_TYPE,
    USER_VISIBLE,
    header_refusals,
    max_payload_bytes,
    payload_refusals,
)
from dispatcher.channels.spec import (
    ChannelSpec,
    Handling,
    Problem,
    Rendering,
    TargetRequest,
    compiled,
    given,
    merged,
    unknown_fields,
)
from dispatcher.channels.template import WholeNumber
from dispatcher.model.tier import Tier

MAX_KEPT_S = 30 * 86_400
"""APNs keeps a notification at most 30 days."""
TOPIC_SUFFIXES = {
    "voip": ".voip",
    "complication": ".complication",
    "fileprovider": ".pushkit.fileprovider",
    "location": ".location-query",
    "liveactivity": ".push-type.liveactivity",
    "pushtotalk": ".voip-ptt",
    "controls": ".push-type.controls",
    "widgets": ".push-type.widgets",
}
"""By push type, the part of its topic after the bundle id. APNs refuses the type with another topic."""
ID_NAMESPACE = UUID("5f462a30-6d61-5777-863e-39042d32b10c")
"""The namespace of `apns-id`, as of any UUID of version 5."""
HEADERS = "headers"
"""The key of `message.apns` that has headers instead of a part of the payload."""
_HEADERS = (PRIORITY, PUSH_TYPE)
_TOKEN = re.compile(r"(?:[0-9A-Fa-f]{2}){32,100}")
_PRIORITY = {Tier.HIGH: "10", Tier.MEDIUM: "5", Tier.LOW: "5"}


def apns_id(task: str, writer: str, sequence: int, position: int) -> str:
    """Return the `apns-id` of a target's notification: the same on each try, so that a repeat can be recognized.

    Outcome records and the journal have these four values, so the id need not be stored.
    """
    return str(uuid5(ID_NAMESPACE, f"{task}/{writer}/{sequence}/{position}"))


class ApnsSpec(ChannelSpec):
    """The rules of APNs. The target goes into the path of a request."""

    table = apns_answers.TABLE
    folds_case = True

    def own_problems(self, message: PushMessage) -> list[Problem]:
        problems = []
        if "aps" in message.data:
            problems.append(Problem("message.data.aps", "is a key that APNs keeps for itself", "rename it"))
        for name in ("aps", HEADERS):
            if not isinstance(message.apns.get(name, {}), Mapping):
                return [*problems, Problem(f"message.apns.{name}", "must be an object")]
        return problems + unknown_fields(message.apns.get(HEADERS, {}), _HEADERS, f"message.apns.{HEADERS}")

    def request_problems(self, message: PushMessage, request: TargetRequest, language: str = "") -> list[Problem]:
        found = (*header_refusals(request.headers), *payload_refusals(request.body, request.headers[PUSH_TYPE]))
        return [Problem(_field(message, each.field, language), each.problem) for each in found]

    def document(self, message: PushMessage) -> dict[str, Any]:
        return _payload(message)

    def max_payload_bytes(self, message: PushMessage) -> int:
        return max_payload_bytes(_push_type(message))

    def check_target(self, target: str) -> str | None:
        return None if _TOKEN.fullmatch(target) else "is not a device token in hexadecimal digits"

    def render(self, message: Mapping[str, Any], handling: Handling) -> Rendering:
        parsed = read_message(message)
        text, maximum = CollapseText(parsed.collapse), self.max_payload_bytes(parsed)
        rendering = Rendering(_headers(parsed, handling), compiled(parsed, _payload), maximum)
        return replace(rendering, collapse_header=COLLAPSE_ID, collapse=text) if text.has_variables else rendering


def aps_with_numbers(aps: Mapping[str, Any]) -> dict[str, Any]:
    """Return an `aps` without nulls, whose numbers are numbers, also those that a variable or a text gives."""
    return {
        name: WholeNumber(value, name) if name in NUMBERS and isinstance(value, str) else value
        for name, value in aps.items()
        if value is not None
    }


def _push_type(message: PushMessage) -> str:
    """Return the type that the message names. Otherwise, what a user notices is an alert."""
    texts = [message.localized(language) for language in ("", *message.locales)]
    is_noticed = any(name in _aps(text) for text in texts for name in USER_VISIBLE)
    return str(message.apns.get(HEADERS, {}).get(PUSH_TYPE, "alert" if is_noticed else "background"))


def _headers(message: PushMessage, handling: Handling) -> dict[str, str]:
    kept_s = handling.kept_s(message, MAX_KEPT_S)
    expiration = handling.now_ms // 1000 + (MAX_KEPT_S if kept_s is None else kept_s)
    push_type = _push_type(message)
    headers = {
        PUSH_TYPE: push_type,
        PRIORITY: "5" if push_type == "background" else _PRIORITY[handling.tier],
        "apns-expiration": str(expiration if kept_s != 0 else 0),
    }
    if (collapse := message.collapse.strip()) and "{{" not in collapse:
        headers[COLLAPSE_ID] = collapse
    return {**headers, **message.apns.get(HEADERS, {})}


def _aps(message: PushMessage) -> dict[str, Any]:
    """Return `aps` as the message says it. Fields under `apns` win over those made from the common ones."""
    fields = {"alert": given({"title": message.title, "body": message.body}), "sound": message.sound}
    aps = given({**fields, "category": message.category, "badge": message.badge_value})
    if message.image:
        aps["mutable-content"] = 1
    return aps_with_numbers(merged(aps, message.apns.get("aps", {})))


def _payload(message: PushMessage) -> dict[str, Any]:
    """Return the payload. A background push needs a mark of its own."""
    aps = _aps(message)
    if _push_type(message) == "background":
        aps = {"content-available": 1, **aps}
    data = {**message.data, "image": message.image} if message.image else message.data
    options = {name: value for name, value in message.apns.items() if name not in (HEADERS, "aps")}
    return merged({**data, "aps": aps}, options)


def _field(message: PushMessage, field: str, language: str) -> str:
    """Return the field of the message behind a header or a path of the payload."""
    if field in message.apns.get(HEADERS, {}):
        return f"message.apns.{HEADERS}.{field}"
    if field.startswith("aps."):
        return f"message.apns.{field}"
    return f"message.locales.{language}" if language else "message"
