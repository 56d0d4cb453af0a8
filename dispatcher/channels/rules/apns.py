"""Rules of APNs for the headers and the payload of a notification, and of devices for what they ignore.

Submission checks final requests by these rules, and the fake of APNs answers by them. Sources: Apple's pages "Sending
notification requests to APNs", "Generating a remote notification" and "Pushing background updates to your app".
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from dispatcher.channels.push_message import MAX_COLLAPSE_BYTES
from dispatcher.model.errors import DECODING_ERRORS

MAX_PAYLOAD_BYTES = 4_096
MAX_VOIP_BYTES = 5_120
PUSH_TYPES = (
    *("alert", "background", "complication", "controls", "fileprovider", "liveactivity", "location", "mdm"),
    *("pushtotalk", "voip", "widgets"),
)
PUSH_TYPE, PRIORITY, COLLAPSE_ID = "apns-push-type", "apns-priority", "apns-collapse-id"
PRIORITIES = ("10", "5", "1")
ID_FORM = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
USER_VISIBLE = ("alert", "badge", "sound")
"""Keys of `aps` that a user notices. A background push has none of them, an alert at least one."""
NUMBERS = ("badge", "content-available", "mutable-content", "timestamp", "stale-date", "dismissal-date")
"""Keys of `aps` with whole numbers. Devices ignore a text there."""
_KINDS: dict[str, Any] = {
    **dict.fromkeys(("category", "thread-id", "target-content-id", "interruption-level", "event"), str),
    **dict.fromkeys(("alert", "sound"), (str, dict)),
}
_EXPIRATION = re.compile(r"\d{1,12}")
_decode = msgspec.json.Decoder().decode


class Defect(NamedTuple):
    """A fault of a notification."""

    reason: str
    """The reason that APNs gives; empty: APNs takes it, and the device ignores it."""
    field: str
    """The header, or a path of the payload such as `aps.badge`; empty: the payload."""
    problem: str


def max_payload_bytes(push_type: str) -> int:
    """Return the limit of a payload of this type."""
    return MAX_VOIP_BYTES if push_type == "voip" else MAX_PAYLOAD_BYTES


def header_refusals(headers: Mapping[str, Any]) -> Iterator[Defect]:
    """Yield the faults of all headers but those of topic and credentials."""
    push_type, priority = headers.get(PUSH_TYPE, "alert"), headers.get(PRIORITY, "10")
    if push_type not in PUSH_TYPES:
        yield Defect("InvalidPushType", PUSH_TYPE, f"must be one of the texts {', '.join(PUSH_TYPES)}")
    if priority not in PRIORITIES:
        yield Defect("BadPriority", PRIORITY, f"must be one of the texts {', '.join(PRIORITIES)}")
    if push_type == "background" and headers.get(PRIORITY) == "10":
        yield Defect("BadPriority", PRIORITY, "must not be 10 for a background push")
    if not _EXPIRATION.fullmatch(str(headers.get("apns-expiration", "0"))):
        yield Defect("BadExpirationDate", "apns-expiration", "is no Unix time in seconds")
    if "apns-id" in headers and not ID_FORM.fullmatch(str(headers["apns-id"])):
        yield Defect("BadMessageId", "apns-id", "is no UUID")
    if len(str(headers.get(COLLAPSE_ID, "")).encode()) > MAX_COLLAPSE_BYTES:
        yield Defect("BadCollapseId", COLLAPSE_ID, f"has more than {MAX_COLLAPSE_BYTES} bytes")


def payload_refusals(body: bytes, push_type: str) -> Iterator[Defect]:
    """Yield the faults of a payload. Apple documents no reason of its own for one that is no JSON object."""
    maximum = max_payload_bytes(push_type)
    if len(body) > maximum:
        yield Defect("PayloadTooLarge", "", f"has {len(body):,} bytes; at most {maximum:,} are possible")
    try:
        payload = _decode(body)
    except DECODING_ERRORS:
        payload = None
    if not isinstance(payload, dict) or not payload:
        yield Defect("PayloadEmpty", "", "is no JSON object with content")
        return
    aps = payload.get("aps", {})
    if isinstance(aps, dict):
        yield from _ignored(aps, push_type)
        yield from aps_refusals(aps)


def aps_refusals(aps: Mapping[str, Any]) -> Iterator[Defect]:
    """Yield the fields of `aps` with values of another type, which devices ignore."""
    for name in (*NUMBERS, "relevance-score"):
        value = aps.get(name, 0)
        if type(value) not in (int, float) or value < 0 or (name == "badge" and value % 1):
            yield Defect("", f"aps.{name}", "must be a number from 0, whole for a badge, not a text or truth value")
    for name, kind in _KINDS.items():
        if not isinstance(aps.get(name, ""), kind):
            yield Defect("", f"aps.{name}", "must be a text" if kind is str else "must be a text or an object")


def _ignored(aps: Mapping[str, Any], push_type: str) -> Iterator[Defect]:
    """Yield what APNs takes, and delays or drops, or the device ignores."""
    noticed = [name for name in USER_VISIBLE if name in aps]
    if push_type == "background" and noticed:
        yield Defect("", PUSH_TYPE, f"must not be background for a message with {', '.join(noticed)}")
    if push_type == "alert" and not noticed:
        yield Defect("", PUSH_TYPE, "must not be alert for a message without a title, body, badge or sound")
