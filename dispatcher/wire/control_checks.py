"""Check whether a record of the control topic is valid: one rule for every reader of the topic.

Anybody with access to Pulsar can write anything into the topic, and later versions write records that this one does not
know. All readers skip a record that cannot be read, or whose fields are beyond their limits. The folds keep its
position, so that a newer version can apply it (backends/redis/passed_over.py).
"""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from dispatcher.model.errors import DECODING_ERRORS, InvalidInput, Malformed
from dispatcher.model.service_settings import (
    CAPACITY,
    EVERY_APP,
    MAX_CAP,
    SHARED_BY,
    SHARING,
    TIER_WEIGHTS,
    Cap,
)
from dispatcher.model.task import MAX_MESSAGE_BYTES, MAX_TARGETS, is_reserved
from dispatcher.model.tier import MAX_WEIGHT, MILLI, MIN_WEIGHT, TIERS
from dispatcher.model.view import ENDED_STATES
from dispatcher.wire.control import (
    FORMAT,
    Announced,
    Checkpoint,
    ControlChange,
    ControlRecord,
    EpochStarted,
    Finished,
    GlobalChange,
    Restated,
    Sealed,
    TakenOver,
    TaskRecord,
    decode_control,
)
from dispatcher.wire.envelope import MAX_ATTEMPTS, MAX_CHUNK, MAX_SEQUENCE, MAX_WRITER_LENGTH
from dispatcher.wire.outcome import MAX_REASON_BYTES, EpochMark, Outcome
from dispatcher.wire.topics import NAME_PATTERN, TASK_PATTERN

MAX_TIME_MS = 253_402_300_799_999
"""The end of the year 9999."""
MAX_PARTITIONS = 10_000
MAX_CLAIM_MS = 86_400_000
"""After a failover, nothing is granted for the time of the longest claim."""
MAX_EDITS = 10**9
MAX_COUNT = 2**50
"""Maximum targets in total. Scripts count with doubles, which are exact up to 2^53."""
_MAX_DIGITS = 16
_MAX_TEXT = 1_024
_NO_MESSAGE, _SOME_MESSAGE = msgspec.msgpack.encode(""), msgspec.msgpack.encode({})

_TASK = re.compile(TASK_PATTERN)
_NAME = re.compile(NAME_PATTERN)
_WRITER = re.compile(f"[A-Za-z0-9._-]{{1,{MAX_WRITER_LENGTH}}}")
_TENANT = "persistent://[A-Za-z0-9_.:=-]{1,128}"
_OWN_LANE = re.compile(rf"{_TENANT}/tasks-[0-9]{{2,9}}/({TASK_PATTERN})")
_SHARED_LANE = re.compile(rf"{_TENANT}/shared/[A-Za-z0-9_.:=~-]{{1,255}}")
_POSITION = re.compile(r"\d{20}:\d{20}:\d{6}")
_EPOCH = re.compile(r"[A-Za-z0-9._-]{1,200}")


def read_control(position: str, body: bytes) -> tuple[str, ControlRecord]:
    """Return the record stored at a position, and its original position. Raises Malformed, with the reason, for a
    record that must be skipped."""
    record = _decoded(body)
    _check(record)
    if not isinstance(record, Restated):
        return position, record
    original = _decoded(record.record)
    if isinstance(original, Restated | EpochStarted | EpochMark):
        raise Malformed(f"it restates {_name(original)}")
    check_kept(original)
    return record.position, original


def check_kept(record: ControlRecord) -> None:
    """Check a record that a view holds. Raises Malformed if it is invalid."""
    _check(_with_message(record))


def _decoded(body: bytes | msgspec.Raw) -> ControlRecord:
    try:
        record: ControlRecord = decode_control(body)
    except DECODING_ERRORS as error:
        raise Malformed(f"it is not readable: {error}") from error
    return record


def _with_message(record: ControlRecord) -> ControlRecord:
    """Give the restated record of an ended task a message. None is kept (backends/redis/lua/registry/task_end.lua)."""
    if isinstance(record, TaskRecord) and bytes(record.message) == _NO_MESSAGE:
        return msgspec.structs.replace(record, message=msgspec.Raw(_SOME_MESSAGE))
    return record


def _check(record: ControlRecord) -> None:
    if record.format > FORMAT:
        raise Malformed(f"it has format {record.format}; this version reads {FORMAT}")
    _need(record.format == FORMAT, "format", record.format)
    task = getattr(record, "task", "t")
    _need(_TASK.fullmatch(task) and not is_reserved(task), "task", task)
    CHECKS[type(record)](record)


def _name(record: object) -> str:
    return type(record).__name__


def _need(is_valid: object, field: str, value: object) -> None:
    if not is_valid:
        raise Malformed(f"its {field} is {repr(value)[:80]}")


def _number(value: int, field: str, maximum: int, minimum: int = 0) -> None:
    _need(minimum <= value <= maximum, field, value)


def _text(value: str, field: str) -> None:
    _need(len(value) <= _MAX_TEXT and (value.isprintable() or not value), field, value)


def _digits(text: str, field: str, maximum: int, minimum: int = 0) -> None:
    """Check a whole number in text form."""
    is_integer = text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS
    _need(is_integer and minimum <= int(text) <= maximum, field, text)


def _time(value: int, field: str) -> None:
    _number(value, field, MAX_TIME_MS)


# ----------------------------------------------------------------- kinds of records


def _task(record: TaskRecord) -> None:
    _need(_NAME.fullmatch(record.app), "app", record.app)
    _need(_NAME.fullmatch(record.channel), "channel", record.channel)
    _message(record.message)
    _lane(record.lane, "" if record.shared else record.task)
    _number(record.chunk, "chunk", MAX_CHUNK, 1)
    _number(record.expected_targets, "number of expected targets", MAX_TARGETS, -1)
    _weight(str(record.weight))
    _number(record.cap, "cap", MAX_CAP)
    _number(record.cap_burst, "burst", MAX_CAP)
    for field in ("start_ms", "expires_ms", "created_ms"):
        _time(getattr(record, field), field)
    _number(record.max_attempts, "number of attempts", MAX_ATTEMPTS, 1)
    _number(record.partitions, "number of partitions", MAX_PARTITIONS)
    _number(record.announced, "number of announced targets", MAX_COUNT)
    for field in ("digest", "submitter", "announced_digest"):
        _text(getattr(record, field), field)


def _message(raw: bytes | msgspec.Raw) -> None:
    _need(len(bytes(raw)) <= MAX_MESSAGE_BYTES, "message's size", len(bytes(raw)))
    try:
        message = msgspec.msgpack.decode(raw, type=dict[str, Any])
        msgspec.json.encode(message)
    except DECODING_ERRORS as error:
        raise Malformed(f"its message is not readable: {error}") from error


def _lane(lane: str, task: str) -> None:
    """Check the name of a lane: the own lane of `task`, or a shared lane if `task` is empty. Workers draw from lanes
    and delete those of ended tasks, so no other topic may be one."""
    own = _OWN_LANE.fullmatch(lane)
    _need(own and own[1] == task if task else _SHARED_LANE.fullmatch(lane), "lane", lane)


def _weight(text: str) -> None:
    _digits(text, "weight", round(MAX_WEIGHT * MILLI), round(MIN_WEIGHT * MILLI))


def _checkpoint(record: Checkpoint) -> None:
    _need(_WRITER.fullmatch(record.writer), "writer", record.writer)
    _number(record.sequence, "sequence", MAX_SEQUENCE + 1)
    for field in ("targets", "refused", "consumed"):
        _number(getattr(record, field), field, MAX_COUNT)
    _text(record.digest, "digest")


def _sealed(record: Sealed) -> None:
    _number(record.targets, "targets", MAX_COUNT)
    _number(record.refused, "refused", MAX_COUNT)
    _text(record.digest, "digest")
    _text(record.submitter, "submitter")
    for writer in record.writers:
        _need(_WRITER.fullmatch(writer), "writer", writer)


def _announced(record: Announced) -> None:
    _submitter(record.submitter)
    for field in ("first", "targets", "refused"):
        _number(getattr(record, field), field, MAX_COUNT)
    _need(record.first <= record.targets, "first", record.first)
    _text(record.digest, "digest")


def _taken_over(record: TakenOver) -> None:
    _submitter(record.submitter)
    _time(record.at_ms, "time")


def _submitter(name: str) -> None:
    _need(_EPOCH.fullmatch(name), "submitter", name)


def _change(record: ControlChange) -> None:
    _time(record.at_ms, "time")
    check = _CONTROLS.get(record.field)
    if check is None:
        raise Malformed(f"this version knows no control {repr(record.field)[:80]}")
    check(record)


def _override(record: ControlChange) -> None:
    number, _, text = record.value.partition(":")
    _digits(number, "override's number", MAX_EDITS)
    try:
        message = msgspec.msgpack.encode(msgspec.json.decode(text, type=dict[str, Any]))
    except DECODING_ERRORS as error:
        raise Malformed(f"its message is not readable: {error}") from error
    _need(len(message) <= MAX_MESSAGE_BYTES, "message's size", len(message))


def _cap(text: str, field: str) -> None:
    """Check RATE or RATE:BURST."""
    for number in text.split(":"):
        _digits(number, field, MAX_CAP)
    try:
        Cap.parse(text)
    except InvalidInput:
        _need(False, field, text)


def _switch(text: str, field: str) -> None:
    _need(text in ("0", "1"), field, text)


def _reason(text: str) -> None:
    """Accept any short text: it is escaped when shown."""
    _need(len(text.encode()) <= MAX_REASON_BYTES, "reason", text)


_CONTROLS: dict[str, Callable[[ControlChange], None]] = {
    "weight": lambda record: _weight(record.value),
    "cap": lambda record: _cap(record.value, "cap"),
    "tier": lambda record: _need(record.value in TIERS, "tier", record.value),
    "paused": lambda record: _switch(record.value, "pause"),
    "cancelled": lambda record: _switch(record.value, "cancel"),
    "stopped": lambda record: _reason(record.value),
    "close": lambda record: _reason(record.value),
    "lane": lambda record: _lane(record.value, record.task),
    "override": _override,
}


def _global(record: GlobalChange) -> None:
    _time(record.at_ms, "time")
    check_setting(record.field, record.value)


def check_setting(field: str, text: str) -> None:
    """Check a stored setting of the whole service. Raises Malformed if it is invalid."""
    kind, _, name = field.partition(":")
    check = _SETTINGS.get(kind)
    if check is None or (kind in (CAPACITY, TIER_WEIGHTS, SHARING) and kind != field):
        raise Malformed(f"this version knows no setting {repr(field)[:80]}")
    check(name, text)


def _tier_weights(_: str, text: str) -> None:
    weights = text[:64].split(":")
    _need(len(weights) == len(TIERS), "weights of tiers", text)
    for weight in weights:
        _weight(weight)


def _pool_cap(pool: str, text: str) -> None:
    kind, _, name = pool.partition(":")
    names = name.split("/") if kind == "app_channel" else [name]
    _need(kind in ("channel", "app", "app_channel"), "pool", pool)
    _need(len(names) == (2 if kind == "app_channel" else 1), "pool", pool)
    _need(all(map(_NAME.fullmatch, names)), "pool", pool)
    _cap(text, "cap")


def _named(name: str, field: str) -> None:
    _need(_NAME.fullmatch(name), field, name)


def _channel_paused(name: str, text: str) -> None:
    _named(name, "channel")
    _switch(text, "pause")


def _app_weight(name: str, text: str) -> None:
    _named(name, "app")
    _weight(text)


def _limit(limited: str, text: str) -> None:
    kind, _, app = limited.partition(":")
    _need(kind in ("tasks", "targets"), "limit", limited)
    _need(app == EVERY_APP or _NAME.fullmatch(app), "app", app)
    _digits(text, "limit", MAX_TARGETS)


_SETTINGS: dict[str, Callable[[str, str], None]] = {
    CAPACITY: lambda _, text: _cap(text, "capacity"),
    TIER_WEIGHTS: _tier_weights,
    SHARING: lambda _, text: _need(text in SHARED_BY, "sharing", text),
    "cap": _pool_cap,
    "channel_paused": _channel_paused,
    "app_weight": _app_weight,
    "limit": _limit,
}


def _finished(record: Finished) -> None:
    _need(record.state in ENDED_STATES, "state", record.state)
    _need(len(record.counts) == len(Outcome), "counts", record.counts)
    for count in record.counts:
        _number(count, "count", MAX_COUNT)
    _time(record.at_ms, "time")
    _reason(record.reason)


def _epoch_started(record: EpochStarted) -> None:
    _need(_EPOCH.fullmatch(record.epoch), "epoch", record.epoch)
    _time(record.at_ms, "time")
    _need(len(record.address) <= MAX_REASON_BYTES, "address", record.address)
    _number(record.claim_ms, "longest claim", MAX_CLAIM_MS)


def _epoch_mark(record: EpochMark) -> None:
    _need(_EPOCH.fullmatch(record.epoch), "epoch", record.epoch)


def _restated(record: Restated) -> None:
    _need(_POSITION.fullmatch(record.position), "position", record.position)


CHECKS: dict[type[ControlRecord], Callable[[Any], None]] = {
    TaskRecord: _task,
    Checkpoint: _checkpoint,
    Sealed: _sealed,
    ControlChange: _change,
    GlobalChange: _global,
    Finished: _finished,
    Announced: _announced,
    TakenOver: _taken_over,
    EpochStarted: _epoch_started,
    EpochMark: _epoch_mark,
    Restated: _restated,
}
"""One check for each kind of record."""
