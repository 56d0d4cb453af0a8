"""Firebase Cloud Messaging, HTTP v1: limits, checks and rendering. One request per target."""

import re
from collections.abc import Mapping
from typing import Any

from dispatcher.channels import fcm_answers
from dispatcher.channels.push_message import PushMessage, read_message
from dispatcher.channels.spec import CapUnit, Handling, Problem, Rendering, compiled, merged, problems_of
from dispatcher.channels.template import TARGET
from dispatcher.model.tier import Tier

MAX_PAYLOAD_BYTES = 4_096
"""FCM's limit of a message to a token."""
MAX_TTL_S = 2_419_200
"""FCM keeps a message at most 28 days."""
_RESERVED = re.compile(r"from|message_type|google.*|gcm.*")
_TOKEN = re.compile(r"[A-Za-z0-9_:.%-]{20,4096}")
_PRIORITY = {Tier.HIGH: "HIGH", Tier.MEDIUM: "NORMAL", Tier.LOW: "NORMAL"}


class FcmSpec:
    """See ChannelSpec."""

    name = "fcm"
    targets_per_request = 1
    unit = CapUnit.TARGET
    table = fcm_answers.TABLE

    def check_message(self, message: Mapping[str, Any]) -> list[Problem]:
        """Return what FCM would refuse in a message, whatever the target."""
        parsed = read_message(message)
        problems = [
            Problem(f"message.data.{key}", "is a key that FCM keeps for itself")
            for key in parsed.data
            if _RESERVED.fullmatch(key)
        ]
        if "token" in parsed.fcm or "topic" in parsed.fcm or "condition" in parsed.fcm:
            problems.append(Problem("message.fcm", "names a target: targets belong in the audience"))
        return problems + problems_of(parsed, MAX_PAYLOAD_BYTES, lambda texts: _fields(texts, Tier.HIGH, 0))

    def check_target(self, target: str) -> str | None:
        """Return why a target cannot be a registration token; None if it can."""
        return None if _TOKEN.fullmatch(target) else "is not an FCM registration token"

    def flow_of(self, app: str, _target: str, /) -> str:
        """Return the app: each has its own service account."""
        return app

    def render(self, message: Mapping[str, Any], handling: Handling) -> Rendering:
        """Prepare a message's requests. Raises InvalidInput."""

        def document(texts: PushMessage) -> dict[str, Any]:
            return {"message": {**_fields(texts, handling.tier, handling.ttl_s), "token": TARGET}}

        return Rendering({}, compiled(read_message(message), document))


def _fields(message: PushMessage, tier: Tier, ttl_s: int | None) -> dict[str, Any]:
    """Return FCM's message without its target. Fields under `fcm` win over those made from the common ones."""
    android: dict[str, Any] = {"priority": _PRIORITY[tier]}
    if ttl_s is not None:
        android["ttl"] = f"{min(ttl_s, MAX_TTL_S)}s"
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
