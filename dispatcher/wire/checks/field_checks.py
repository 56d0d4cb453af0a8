"""Checks of single fields of the control topic's records. Each raises Malformed with the name of the field."""

import re
from typing import Any

import msgspec

from dispatcher.model.errors import DECODING_ERRORS, InvalidInput, Malformed
from dispatcher.model.pools import MAX_CAP, Cap
from dispatcher.model.task import MAX_MESSAGE_BYTES
from dispatcher.model.tier import MAX_WEIGHT, MILLI, MIN_WEIGHT, TIERS, Tier
from dispatcher.wire.checks.nesting import complaint_of
from dispatcher.wire.groups import MAX_TIME_MS
from dispatcher.wire.outcome import MAX_REASON_BYTES
from dispatcher.wire.topics import TASK_PATTERN

_MAX_DIGITS = 16
_MAX_TEXT = 1_024
_TENANT = "persistent://[A-Za-z0-9_.:=-]{1,128}"
_OWN_LANE = re.compile(rf"{_TENANT}/tasks-[0-9]{{2,9}}/({TASK_PATTERN})")
_SHARED_LANE = re.compile(rf"{_TENANT}/shared/[A-Za-z0-9_.:=~-]{{1,255}}")


def need(is_valid: object, field: str, value: object) -> None:
    if not is_valid:
        raise Malformed(f"its {field} is {repr(value)[:80]}")


def number(value: int, field: str, maximum: int, minimum: int = 0) -> None:
    need(minimum <= value <= maximum, field, value)


def time_ms(value: int, field: str) -> None:
    number(value, field, MAX_TIME_MS - 1)


def text(value: str, field: str, maximum: int = _MAX_TEXT) -> None:
    need(len(value) <= maximum and (value.isprintable() or not value), field, value)


def digits(written: str, field: str, maximum: int, minimum: int = 0) -> int:
    """Parse a whole number in text form."""
    is_integer = written.isascii() and written.isdecimal() and len(written) <= _MAX_DIGITS
    need(is_integer and minimum <= int(written) <= maximum, field, written)
    return int(written)


def weight(written: str) -> int:
    """Parse a weight in thousandths."""
    return digits(written, "weight", round(MAX_WEIGHT * MILLI), round(MIN_WEIGHT * MILLI))


def tier(written: str) -> Tier:
    need(written in TIERS, "tier", written)
    return Tier(written)


def cap(written: str, field: str) -> Cap:
    """Parse RATE or RATE:BURST."""
    for part in written.split(":"):
        digits(part, field, MAX_CAP)
    try:
        return Cap.parse(written)
    except InvalidInput:
        raise Malformed(f"its {field} is {repr(written)[:80]}") from None


def switch(written: str, field: str) -> bool:
    """Parse 1 or 0."""
    need(written in ("0", "1"), field, written)
    return written == "1"


def reason(written: str) -> str:
    """Accept any short text: it is escaped when shown."""
    need(len(written.encode()) <= MAX_REASON_BYTES, "reason", written)
    return written


def lane(name: str, task: str) -> str:
    """Check the name of a lane: the own lane of `task`, or a shared lane if `task` is empty. Workers draw from lanes
    and delete those of ended tasks, so no other topic may be one."""
    own = _OWN_LANE.fullmatch(name)
    need(own and own[1] == task if task else _SHARED_LANE.fullmatch(name), "lane", name)
    return name


def message(raw: bytes | msgspec.Raw) -> None:
    """Check a message encoded as in an envelope."""
    need(len(bytes(raw)) <= MAX_MESSAGE_BYTES, "message's size", len(bytes(raw)))
    try:
        message = msgspec.msgpack.decode(raw, type=dict[str, Any])
        need(not complaint_of([message]), "message", message)
        msgspec.json.encode(message)
    except DECODING_ERRORS as error:
        raise Malformed(f"its message is not readable: {error}") from error
