"""Check whether a record of the control topic is valid: one rule for every reader of the topic.

Anyone with access to Pulsar can write anything into the topic, and later versions write records that this one does not
know. All readers skip a record that cannot be read, or whose fields are beyond their limits. The folds keep its
position, so that a newer version can apply it (backends/redis/skipped_records.py).
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Any, get_args

import msgspec

from dispatcher.access.principal import MAX_BY_LENGTH
from dispatcher.model.errors import DECODING_ERRORS, Malformed
from dispatcher.model.pools import MAX_CAP
from dispatcher.model.service_settings import Setting
from dispatcher.model.task import MAX_TARGETS, is_reserved
from dispatcher.model.task_control import Control
from dispatcher.model.view import ENDED_STATES
from dispatcher.verdicts import error_text
from dispatcher.wire.checks import field_checks as check
from dispatcher.wire.control import (
    FORMAT,
    Announced,
    ControlChange,
    ControlRecord,
    EpochStarted,
    Finished,
    GlobalChange,
    Restated,
    TakenOver,
    TaskRecord,
    decode_control,
)
from dispatcher.wire.envelope import MAX_ATTEMPTS, MAX_CHUNK, MAX_RETRY_FOR_MS, MAX_SEQUENCE, MAX_WRITER_LENGTH
from dispatcher.wire.outcome import MAX_REASON_BYTES, EpochMark, Outcome
from dispatcher.wire.topics import NAME_PATTERN, TASK_PATTERN

MAX_PARTITIONS = 10_000
MAX_CLAIM_MS = 86_400_000
"""After a failover, nothing is granted for the time of the longest claim."""
MAX_COUNT = 2**50
"""Maximum targets in total. Scripts count with doubles, which are exact up to 2^53."""
_NO_MESSAGE, _SOME_MESSAGE = msgspec.msgpack.encode(""), msgspec.msgpack.encode({})

_TASK = re.compile(TASK_PATTERN)
_NAME = re.compile(NAME_PATTERN)
_WRITER = re.compile(f"[A-Za-z0-9._-]{{1,{MAX_WRITER_LENGTH}}}")
_POSITION = re.compile(r"\d{20}:\d{20}:\d{6}")
_EPOCH = re.compile(r"[A-Za-z0-9._-]{1,200}")


def read_control(position: str, body: bytes) -> tuple[str, ControlRecord]:
    """Return the record stored at a position, and its original position. Raises Malformed, with the reason, for a
    record that must be skipped: also one that makes a check fail, since it would end each worker that folds it."""
    try:
        return _read(position, body)
    except Malformed:
        raise
    except Exception as error:
        raise Malformed(f"it cannot be checked: {error_text(error)}") from error


def _read(position: str, body: bytes) -> tuple[str, ControlRecord]:
    record = _decoded(body)
    _check(record)
    if not isinstance(record, Restated):
        return position, record
    original = _decoded(record.record)
    if isinstance(original, Restated | EpochStarted | EpochMark):
        raise Malformed(f"it restates {type(original).__name__}")
    _check(_with_message(original))
    return record.position, original


def _decoded(body: bytes | msgspec.Raw) -> ControlRecord:
    try:
        record: ControlRecord = decode_control(body)
    except DECODING_ERRORS as error:
        raise Malformed(f"it is not readable: {error}") from error
    return record


def _with_message(record: ControlRecord) -> ControlRecord:
    """Give the restated record of an ended task a message, since the view keeps none
    (backends/redis/lua/registry/task_end.lua)."""
    if isinstance(record, TaskRecord) and bytes(record.message) == _NO_MESSAGE:
        return msgspec.structs.replace(record, message=msgspec.Raw(_SOME_MESSAGE))
    return record


def _check(record: ControlRecord) -> None:
    if record.format > FORMAT:
        raise Malformed(f"it has format {record.format}; this version reads {FORMAT}")
    check.need(record.format == FORMAT, "format", record.format)
    for field, check_value in CHECKS[type(record)]:
        check_value(getattr(record, field))
    if rule := _RULES.get(type(record)):
        rule(record)


# ----------------------------------------------------------------- fields, and kinds of records


def _number(label: str, maximum: int, minimum: int = 0) -> Callable[[int], None]:
    return lambda value: check.number(value, label, maximum, minimum)


def _like(label: str, pattern: re.Pattern[str]) -> Callable[[str], None]:
    return lambda value: check.need(pattern.fullmatch(value), label, value)


def _each(check_value: Callable[..., None], *fields: str) -> dict[str, Callable[[Any], None]]:
    """Return the same check for fields, whose names are those in messages."""
    return {field: partial(check_value, field=field) for field in fields}


def _all(check_value: Callable[[Any], None]) -> Callable[[list[Any]], None]:
    def check_all(values: list[Any]) -> None:
        for value in values:
            check_value(value)

    return check_all


FIELDS: dict[str, Callable[[Any], object]] = {
    "task": lambda task: check.need(_TASK.fullmatch(task) and not is_reserved(task), "task", task),
    "app": _like("app", _NAME),
    "channel": _like("channel", _NAME),
    "message": check.message,
    "chunk": _number("chunk", MAX_CHUNK, 1),
    "expected_targets": _number("number of expected targets", MAX_TARGETS, -1),
    "weight": lambda weight: check.weight(str(weight)),
    "cap": _number("cap", MAX_CAP),
    "cap_burst": _number("burst", MAX_CAP),
    **_each(check.time_ms, "start_ms", "expires_ms", "created_ms"),
    "at_ms": lambda at_ms: check.time_ms(at_ms, "time"),
    "max_attempts": _number("number of attempts", MAX_ATTEMPTS, 1),
    "retry_for_ms": _number("time to retry", MAX_RETRY_FOR_MS),
    "partitions": _number("number of partitions", MAX_PARTITIONS),
    "announced": _number("number of announced targets", MAX_COUNT),
    "first": _number("number of first targets", MAX_COUNT),
    **_each(check.text, "digest", "submitter", "announced_digest"),
    **_each(lambda text, field: check.text(text, field, MAX_BY_LENGTH), "by", "request"),
    "writer": _like("writer", _WRITER),
    "writers": _all(_like("writer", _WRITER)),
    "sequence": _number("sequence", MAX_SEQUENCE + 1),
    **_each(lambda count, field: check.number(count, field, MAX_COUNT), "targets", "refused", "consumed"),
    "state": lambda state: check.need(state in ENDED_STATES, "state", state),
    "counts": _all(_number("count", MAX_COUNT)),
    "reason": check.reason,
    "epoch": _like("epoch", _EPOCH),
    "address": lambda address: check.need(len(address) <= MAX_REASON_BYTES, "address", address),
    "claim_ms": _number("longest claim", MAX_CLAIM_MS),
    "position": _like("position", _POSITION),
}
"""The checks of fields by name, in whatever kind of record they are."""
CHECKS = {
    kind: [(field, FIELDS[field]) for field in kind.__struct_fields__ if field in FIELDS]
    for kind in get_args(ControlRecord)
}
"""By kind of record: its fields with their checks."""


def _check_task(record: TaskRecord) -> None:
    check.lane(record.lane, "" if record.shared else record.task)
    check.need(not (record.first and record.shared), "lane for first targets", record.lane)


def _check_announced(record: Announced) -> None:
    check.need(_EPOCH.fullmatch(record.submitter), "submitter", record.submitter)
    check.need(record.first <= record.targets, "first", record.first)


_RULES: dict[type[ControlRecord], Callable[[Any], object]] = {
    TaskRecord: _check_task,
    Announced: _check_announced,
    TakenOver: lambda record: check.need(_EPOCH.fullmatch(record.submitter), "submitter", record.submitter),
    ControlChange: Control.parse,
    GlobalChange: lambda record: Setting.parse(record.field, record.value),
    Finished: lambda record: check.need(len(record.counts) == len(Outcome), "counts", record.counts),
}
"""The rules beyond single fields, by kind of record."""
