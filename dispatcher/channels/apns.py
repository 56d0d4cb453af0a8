"""Apple Push Notification service: limits, checks, headers and rendering. One request per target."""

import re
from collections.abc import Mapping
from typing import Any

from dispatcher.channels import apns_answers
from dispatcher.channels.push_message import PushMessage, read_message
from dispatcher.channels.spec import CapUnit, Handling, Problem, Rendering, compiled, merged, problems_of
from dispatcher.model.tier import Tier

MAX_PAYLOAD_BYTES = 4_096
MAX_KEPT_S = 30 * 86_400
"""APNs keeps a notification at most 30 days."""
_TOKEN = re.compile(r"(?:[0-9A-Fa-f]{2}){32,100}")
_PRIORITY = {Tier.HIGH: "10", Tier.MEDIUM: "5", Tier.LOW: "5"}


class ApnsSpec:
    """See ChannelSpec."""

    name = "apns"
    targets_per_request = 1
    unit = CapUnit.TARGET
    table = apns_answers.TABLE

    def check_message(self, message: Mapping[str, Any]) -> list[Problem]:
        """Return what APNs would refuse in a message, whatever the target."""
        parsed = read_message(message)
        problems = [Problem("message.data.aps", "is a key that APNs keeps for itself")] if "aps" in parsed.data else []
        if not isinstance(parsed.apns.get("aps", {}), Mapping):
            return [*problems, Problem("message.apns.aps", "must be an object")]
        return problems + problems_of(parsed, MAX_PAYLOAD_BYTES, _payload)

    def check_target(self, target: str) -> str | None:
        """Return why a target cannot be a device token; None if it can."""
        return None if _TOKEN.fullmatch(target) else "is not a device token in hexadecimal digits"

    def flow_of(self, app: str, _target: str, /) -> str:
        """Return the app: each has its own key or certificate."""
        return app

    def render(self, message: Mapping[str, Any], handling: Handling) -> Rendering:
        """Prepare a message's requests. The target goes into their path. Raises InvalidInput."""
        parsed = read_message(message)
        return Rendering(_headers(parsed, handling), compiled(parsed, _payload))


def _headers(message: PushMessage, handling: Handling) -> dict[str, str]:
    is_shown = "alert" in _payload(message)["aps"]
    kept_s = MAX_KEPT_S if handling.ttl_s is None else min(handling.ttl_s, MAX_KEPT_S)
    fixed = {
        "apns-push-type": "alert" if is_shown else "background",
        "apns-priority": _PRIORITY[handling.tier] if is_shown else "5",
        "apns-expiration": str(handling.now_ms // 1000 + kept_s),
    }
    return {**fixed, "apns-collapse-id": message.collapse} if message.collapse else fixed


def _payload(message: PushMessage) -> dict[str, Any]:
    """Return the payload. Fields under `apns` win over those made from the common ones."""
    alert = {name: text for name, text in (("title", message.title), ("body", message.body)) if text}
    aps: dict[str, Any] = {"alert": alert} if alert else {"content-available": 1}
    options = {"sound": message.sound, "category": message.category, "badge": message.badge}
    aps |= {name: value for name, value in options.items() if value not in ("", None)}
    if message.image:
        aps["mutable-content"] = 1
    data = {**message.data, "image": message.image} if message.image else message.data
    return merged({**data, "aps": aps}, message.apns)
