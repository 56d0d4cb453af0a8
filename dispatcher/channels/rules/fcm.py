"""Rules of FCM for a message.

Submission checks final requests by these rules, and the fake of FCM answers by them. Source: Firebase's reference of
`projects.messages`.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from dispatcher.channels.rules.apns import aps_refusals, header_refusals
from dispatcher.channels.spec import Problem, unknown_fields

MAX_PAYLOAD_BYTES = 4_096
"""FCM's limit of a message to a token."""
MAX_TTL_S = 2_419_200
"""FCM keeps a message at most 28 days."""
PRIORITIES = ("NORMAL", "HIGH")
RESERVED_DATA = re.compile(r"from|message_type|google.*|gcm.*")
TARGET_FIELDS = ("token", "topic", "condition")
_FIELDS = {
    "message": frozenset({
        *("name", "data", "notification", "android", "webpush", "apns", "fcm_options", "token", "topic", "condition"),
    }),
    "message.notification": frozenset({"title", "body", "image"}),
    "message.android": frozenset({
        *("collapse_key", "priority", "ttl", "restricted_package_name", "data", "notification", "fcm_options"),
        *("direct_boot_ok", "bandwidth_constrained_ok", "restricted_satellite_ok"),
    }),
    "message.android.notification": frozenset({
        *("title", "body", "icon", "color", "sound", "tag", "click_action", "body_loc_key", "body_loc_args", "image"),
        *("title_loc_key", "title_loc_args", "channel_id", "ticker", "sticky", "event_time", "local_only", "proxy"),
        *("notification_priority", "default_sound", "default_vibrate_timings", "default_light_settings", "visibility"),
        *("vibrate_timings", "notification_count", "light_settings", "bypass_proxy_notification"),
    }),
    "message.android.notification.light_settings": frozenset({"color", "light_on_duration", "light_off_duration"}),
    "message.webpush": frozenset({"headers", "data", "notification", "fcm_options"}),
    "message.apns": frozenset({"headers", "payload", "fcm_options", "live_activity_token"}),
    "message.fcm_options": frozenset({"analytics_label"}),
    "message.android.fcm_options": frozenset({"analytics_label"}),
    "message.webpush.fcm_options": frozenset({"analytics_label", "link"}),
    "message.apns.fcm_options": frozenset({"analytics_label", "image"}),
}  # fmt: skip
"""By object, all the fields that it may have."""
_OBJECTS = (*_FIELDS, "message.apns.payload", "message.apns.payload.aps", "message.webpush.notification")
_TYPED = tuple(path for path in _FIELDS if path.endswith(("notification", "android", "fcm_options")))
"""Objects whose fields have the types below."""
_TEXTS = tuple(
    f"message.{name}" for name in ("data", "android.data", "webpush.data", "webpush.headers", "apns.headers")
)
"""Objects that hold texts only."""
_TYPES: dict[str, type] = {
    **dict.fromkeys(("direct_boot_ok", "bandwidth_constrained_ok", "restricted_satellite_ok", "sticky"), bool),
    **dict.fromkeys(("local_only", "default_sound", "default_vibrate_timings", "default_light_settings"), bool),
    **dict.fromkeys(("body_loc_args", "title_loc_args", "vibrate_timings"), list),
    **dict.fromkeys(("data", "notification", "fcm_options", "light_settings"), object),
    "notification_count": int,
}
"""Types of fields of Android and of notifications. All others are texts."""
_WORDS = {bool: "true or false", int: "a whole number", list: "a list", str: "a text"}
_FORMS = {
    "color": r"#[0-9a-f]{6}",
    "visibility": r"visibility_unspecified|private|public|secret",
    "notification_priority": r"priority_(unspecified|min|low|default|high|max)",
    "event_time": r"\d{4}-\d\d-\d\dt\d\d:\d\d:\d\d(\.\d{1,9})?(z|[+-]\d\d:\d\d)",
    "analytics_label": r"[a-z0-9_.~%-]{1,50}",
    "link": r"https://.+",
}
"""Forms of texts, in any case."""
_ANY_CASE = re.IGNORECASE | re.ASCII
_TTL = re.compile(r"(\d{1,12})(?:\.\d{1,9})?s")
_encode = msgspec.json.Encoder().encode


def refusals(message: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the faults of a message, by their paths such as `message.android.ttl`, but for those of its target."""
    for path in (*_OBJECTS, *_TEXTS):
        value = value_at(message, path)
        if value is None:
            continue
        if not isinstance(value, Mapping):
            yield Problem(path, "must be an object")
        elif path in _FIELDS:
            yield from unknown_fields(value, _FIELDS[path], path)
        elif path in _TEXTS:
            yield from (Problem(f"{path}.{key}", "must be a text") for key in value if not isinstance(value[key], str))
    yield from _value_refusals(message)
    yield from _ios_refusals(message)
    size = len(_encode({name: value for name, value in message.items() if name != "token"}))
    if size > MAX_PAYLOAD_BYTES:
        yield Problem("message", f"is too big: {size} bytes; at most {MAX_PAYLOAD_BYTES} are allowed")


def _value_refusals(message: Mapping[str, Any]) -> Iterator[Problem]:
    for path in ("message.data", "message.android.data"):
        for key in _object(message, path):
            if RESERVED_DATA.fullmatch(key):
                yield Problem(f"{path}.{key}", "is a key that FCM keeps for itself", "rename it")
    for path in _TYPED:
        for name, value in _object(message, path).items():
            if value is not None and (problem := _value_problem(name, value)):
                yield Problem(f"{path}.{name}", problem)
    android = _object(message, "message.android")
    ttl = _TTL.fullmatch(str(android.get("ttl", "0s")))
    if ttl is None or int(ttl[1]) > MAX_TTL_S:
        yield Problem("message.android.ttl", f"is no duration from 0s to {MAX_TTL_S}s, such as 3.5s")
    if str(android.get("priority", "NORMAL")).upper() not in PRIORITIES:
        yield Problem("message.android.priority", f"must be {' or '.join(PRIORITIES)}")


def _ios_refusals(message: Mapping[str, Any]) -> Iterator[Problem]:
    for found in header_refusals(_object(message, "message.apns.headers")):
        yield Problem(f"message.apns.headers.{found.field}", found.problem)
    for found in aps_refusals(_object(message, "message.apns.payload.aps")):
        yield Problem(f"message.apns.payload.{found.field}", found.problem)


def _value_problem(name: str, value: object) -> str:
    """Return what is wrong with the value of a field; empty if nothing is."""
    kind = _TYPES.get(name, str)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        return f"must be {_WORDS[kind]}"
    if isinstance(value, list) and not all(isinstance(item, str) for item in value):
        return "must hold texts only"
    form = _FORMS.get(name, "")
    return f"must be of the form {form}" if form and not re.fullmatch(form, str(value), _ANY_CASE) else ""


def value_at(message: Mapping[str, Any], path: str) -> Any:
    """Return what a message has at a path that begins with `message`; None if it has nothing there."""
    value: Any = message
    for name in path.split(".")[1:]:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _object(message: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    value = value_at(message, path)
    return value if isinstance(value, Mapping) else {}
