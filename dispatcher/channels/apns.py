"""Apple Push Notification service: limits, checks, headers and rendering. One request per target."""

import re
from collections.abc import Mapping
from typing import Any
from uuid import UUID, uuid5

from dispatcher.channels import apns_answers
from dispatcher.channels.push_message import PushMessage, read_message
from dispatcher.channels.spec import ChannelSpec, Handling, Problem, Rendering, compiled, merged, unknown_fields
from dispatcher.model.tier import Tier

MAX_PAYLOAD_BYTES = 4_096
MAX_KEPT_S = 30 * 86_400
"""APNs keeps a notification at most 30 days."""
PUSH_TYPES = frozenset({
    *("alert", "background", "voip", "complication", "fileprovider", "mdm", "location", "liveactivity"),
    *("pushtotalk", "controls", "widgets"),
})  # fmt: skip
PUSH_TYPE = "apns-push-type"
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
PRIORITIES = ("10", "5", "1")
ID_NAMESPACE = UUID("5f462a30-6d61-5777-863e-39042d32b10c")
"""The namespace of `apns-id`, as of any UUID of version 5."""
HEADERS = "headers"
"""The key of `message.apns` that has headers instead of a part of the payload."""
_HEADERS = ("apns-priority", PUSH_TYPE)
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
    max_payload_bytes = MAX_PAYLOAD_BYTES
    folds_case = True

    def own_problems(self, message: PushMessage) -> list[Problem]:
        problems = []
        if "aps" in message.data:
            problems.append(Problem("message.data.aps", "is a key that APNs keeps for itself", "rename it"))
        if not message.collapse.isprintable():  # it becomes a header
            problems.append(Problem("message.collapse", "holds a control character or an unusual space", "remove it"))
        for name in ("aps", HEADERS):
            if not isinstance(message.apns.get(name, {}), Mapping):
                return [*problems, Problem(f"message.apns.{name}", "must be an object")]
        return problems + _header_problems(message.apns.get(HEADERS, {}))

    def document(self, message: PushMessage) -> dict[str, Any]:
        return _payload(message)

    def check_target(self, target: str) -> str | None:
        return None if _TOKEN.fullmatch(target) else "is not a device token in hexadecimal digits"

    def render(self, message: Mapping[str, Any], handling: Handling) -> Rendering:
        parsed = read_message(message)
        return Rendering(_headers(parsed, handling), compiled(parsed, _payload))


def _headers(message: PushMessage, handling: Handling) -> dict[str, str]:
    is_shown = "alert" in _payload(message)["aps"]
    kept_s = handling.kept_s(message, MAX_KEPT_S)
    expiration = handling.now_ms // 1000 + (MAX_KEPT_S if kept_s is None else kept_s)
    headers = {
        PUSH_TYPE: "alert" if is_shown else "background",
        "apns-priority": _PRIORITY[handling.tier] if is_shown else "5",
        "apns-expiration": str(expiration if kept_s != 0 else 0),
    }
    if message.collapse:
        headers["apns-collapse-id"] = message.collapse
    return {**headers, **message.apns.get(HEADERS, {})}


def _header_problems(headers: Mapping[str, Any]) -> list[Problem]:
    problems = unknown_fields(headers, _HEADERS, f"message.apns.{HEADERS}")
    for name, known in (("apns-priority", PRIORITIES), (PUSH_TYPE, sorted(PUSH_TYPES))):
        if name in headers and headers[name] not in known:
            problems.append(Problem(f"message.apns.{HEADERS}.{name}", f"must be one of the texts {', '.join(known)}"))
    if headers.get(PUSH_TYPE) == "background" and headers.get("apns-priority") == "10":
        problems.append(Problem(f"message.apns.{HEADERS}.apns-priority", "must not be 10 for a background push"))
    return problems


def _payload(message: PushMessage) -> dict[str, Any]:
    """Return the payload. Fields under `apns` win over those made from the common ones."""
    alert = {name: text for name, text in (("title", message.title), ("body", message.body)) if text}
    aps: dict[str, Any] = {"alert": alert} if alert else {"content-available": 1}
    fields = {"sound": message.sound, "category": message.category, "badge": message.badge}
    aps |= {name: value for name, value in fields.items() if value not in ("", None)}
    if message.image:
        aps["mutable-content"] = 1
    data = {**message.data, "image": message.image} if message.image else message.data
    options = {name: value for name, value in message.apns.items() if name != HEADERS}
    return merged({**data, "aps": aps}, options)
