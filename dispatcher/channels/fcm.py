"""Firebase Cloud Messaging, HTTP v1: limits, checks and rendering. One request per target."""

import re
from collections.abc import Mapping
from typing import Any

from dispatcher.channels import fcm_answers
from dispatcher.channels.push_message import PushMessage, read_message
from dispatcher.channels.spec import ChannelSpec, Handling, Problem, Rendering, compiled, merged, unknown_fields
from dispatcher.channels.template import TARGET
from dispatcher.model.tier import Tier

MAX_PAYLOAD_BYTES = 4_096
"""FCM's limit of a message to a token."""
MAX_TTL_S = 2_419_200
"""FCM keeps a message at most 28 days."""
MESSAGE_FIELDS = frozenset({
    *("name", "data", "notification", "android", "webpush", "apns", "fcm_options", "token", "topic", "condition"),
})  # fmt: skip
ANDROID_FIELDS = frozenset({
    *("collapse_key", "priority", "ttl", "restricted_package_name", "data", "notification", "fcm_options"),
    *("direct_boot_ok", "bandwidth_constrained_ok", "restricted_satellite_ok"),
})  # fmt: skip
PRIORITIES = ("NORMAL", "HIGH")
OBJECT_FIELDS = ("data", "notification", "android", "webpush", "apns", "fcm_options")
TARGET_FIELDS = ("token", "topic", "condition")
_TTL = re.compile(r"(\d{1,12})(?:\.\d{1,9})?s")
RESERVED_DATA = re.compile(r"from|message_type|google.*|gcm.*")
_TOKEN = re.compile(r"[A-Za-z0-9_:.%-]{20,4096}")
_PRIORITY = {Tier.HIGH: "HIGH", Tier.MEDIUM: "NORMAL", Tier.LOW: "NORMAL"}


class FcmSpec(ChannelSpec):
    """The rules of FCM. Its limit applies to the message without its target."""

    table = fcm_answers.TABLE
    max_payload_bytes = MAX_PAYLOAD_BYTES

    def own_problems(self, message: PushMessage) -> list[Problem]:
        problems = [
            Problem(f"message.data.{key}", "is a key that FCM keeps for itself", "rename it")
            for key in message.data
            if RESERVED_DATA.fullmatch(key)
        ]
        return problems + _option_problems(message.fcm)

    def document(self, message: PushMessage) -> dict[str, Any]:
        # With every field that depends on the moment of sending.
        return _fields(message, Tier.MEDIUM, MAX_TTL_S)

    def check_target(self, target: str) -> str | None:
        return None if _TOKEN.fullmatch(target) else "is not an FCM registration token"

    def render(self, message: Mapping[str, Any], handling: Handling) -> Rendering:
        def document(texts: PushMessage) -> dict[str, Any]:
            ttl_s = handling.kept_s(texts, MAX_TTL_S)
            return {"message": {**_fields(texts, handling.tier, ttl_s), "token": TARGET}}

        return Rendering({}, compiled(read_message(message), document))


def ttl_problem(ttl: object) -> str:
    """Return why FCM would refuse a lifetime; empty if it would not."""
    match = _TTL.fullmatch(ttl) if isinstance(ttl, str) else None
    is_good = match is not None and int(match[1]) <= MAX_TTL_S
    return "" if is_good else f"is no duration from 0s to {MAX_TTL_S}s, such as 3.5s"


def priority_problem(priority: object) -> str:
    """Return why FCM would refuse a priority; empty if it would not."""
    return "" if str(priority).upper() in PRIORITIES else f"must be {' or '.join(PRIORITIES)}"


def _option_problems(options: Mapping[str, Any]) -> list[Problem]:
    problems = unknown_fields(options, MESSAGE_FIELDS, "message.fcm")
    for name in options:
        if name in TARGET_FIELDS:
            problems.append(Problem(f"message.fcm.{name}", "names a target", "targets belong in the audience"))
        elif name in OBJECT_FIELDS and not isinstance(options[name], Mapping):
            problems.append(Problem(f"message.fcm.{name}", "must be an object"))
    android = options.get("android", {})
    if not isinstance(android, Mapping):
        return problems
    problems += unknown_fields(android, ANDROID_FIELDS, "message.fcm.android")
    for name, problem_of in (("ttl", ttl_problem), ("priority", priority_problem)):
        if name in android and (problem := problem_of(android[name])):
            problems.append(Problem(f"message.fcm.android.{name}", problem))
    return problems


def _fields(message: PushMessage, tier: Tier, ttl_s: int | None) -> dict[str, Any]:
    """Return FCM's message without its target. Fields under `fcm` win over those made from the common ones."""
    android: dict[str, Any] = {"priority": _PRIORITY[tier]}
    if ttl_s is not None:
        android["ttl"] = f"{ttl_s}s"
    if message.collapse:
        android["collapse_key"] = message.collapse
    shown = {"channel_id": message.category, "sound": message.sound}
    if any(shown.values()):
        android["notification"] = {name: value for name, value in shown.items() if value}
    notification = {"title": message.title, "body": message.body, "image": message.image}
    fields: dict[str, Any] = {"android": android}
    if any(notification.values()):
        fields["notification"] = {name: value for name, value in notification.items() if value}
    if message.data:
        fields["data"] = message.data
    return merged(fields, message.fcm)
