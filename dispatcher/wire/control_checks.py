"""Check whether a record of the control topic is valid: one rule for every reader of the topic.

Anyone with access to Pulsar can write anything into the topic, and later versions write records that this one does not
know. All readers skip a record that cannot be read, or whose fields are beyond their limits. The folds keep its
position, so that a newer version can apply it (backends/redis/skipped_records.py).
"""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from dispatcher.model.errors import DECODING_ERRORS, Malformed
from dispatcher.model.pools import MAX_CAP
from dispatcher.model.service_settings import Setting
from dispatcher.model.task import MAX_TARGETS, is_reserved
from dispatcher.model.task_control import Control
from dispatcher.model.view import ENDED_STATES
from dispatcher.wire import field_checks as check
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
    """Give the restated record of an ended task a message, since the view keeps none
    (backends/redis/lua/registry/task_end.lua)."""
    if isinstance(record, TaskRecord) and bytes(record.message) == _NO_MESSAGE:
        return msgspec.structs.replace(record, message=msgspec.Raw(_SOME_MESSAGE))
    return record


def _check(record: ControlRecord) -> None:
    if record.format > FORMAT:
        raise Malformed(f"it has format {record.format}; this version reads {FORMAT}")
    check.need(record.format == FORMAT, "format", record.format)
    task = getattr(record, "task", "t")
    check.need(_TASK.fullmatch(task) and not is_reserved(task), "task", task)
    CHECKS[type(record)](record)


def _name(record: object) -> str:
    return type(record).__name__


# ----------------------------------------------------------------- kinds of records


def _task(record: TaskRecord) -> None:
    check.need(_NAME.fullmatch(record.app), "app", record.app)
    check.need(_NAME.fullmatch(record.channel), "channel", record.channel)
    check.message(record.message)
    check.lane(record.lane, "" if record.shared else record.task)
    check.number(record.chunk, "chunk", MAX_CHUNK, 1)
    check.number(record.expected_targets, "number of expected targets", MAX_TARGETS, -1)
    check.weight(str(record.weight))
    check.number(record.cap, "cap", MAX_CAP)
    check.number(record.cap_burst, "burst", MAX_CAP)
    for field in ("start_ms", "expires_ms", "created_ms"):
        check.time_ms(getattr(record, field), field)
    check.number(record.max_attempts, "number of attempts", MAX_ATTEMPTS, 1)
    check.number(record.retry_for_ms, "time to retry", MAX_RETRY_FOR_MS)
    check.number(record.partitions, "number of partitions", MAX_PARTITIONS)
    check.number(record.announced, "number of announced targets", MAX_COUNT)
    check.number(record.first, "number of first targets", MAX_COUNT)
    check.need(not (record.first and record.shared), "lane for first targets", record.lane)
    for field in ("digest", "submitter", "announced_digest"):
        check.text(getattr(record, field), field)


def _checkpoint(record: Checkpoint) -> None:
    check.need(_WRITER.fullmatch(record.writer), "writer", record.writer)
    check.number(record.sequence, "sequence", MAX_SEQUENCE + 1)
    for field in ("targets", "refused", "consumed"):
        check.number(getattr(record, field), field, MAX_COUNT)
    check.text(record.digest, "digest")


def _sealed(record: Sealed) -> None:
    check.number(record.targets, "targets", MAX_COUNT)
    check.number(record.refused, "refused", MAX_COUNT)
    check.text(record.digest, "digest")
    check.text(record.submitter, "submitter")
    for writer in record.writers:
        check.need(_WRITER.fullmatch(writer), "writer", writer)


def _announced(record: Announced) -> None:
    _submitter(record.submitter)
    for field in ("first", "targets", "refused"):
        check.number(getattr(record, field), field, MAX_COUNT)
    check.need(record.first <= record.targets, "first", record.first)
    check.text(record.digest, "digest")


def _taken_over(record: TakenOver) -> None:
    _submitter(record.submitter)
    check.time_ms(record.at_ms, "time")


def _submitter(name: str) -> None:
    check.need(_EPOCH.fullmatch(name), "submitter", name)


def _change(record: ControlChange) -> None:
    check.time_ms(record.at_ms, "time")
    Control.parse(record)


def _global(record: GlobalChange) -> None:
    check.time_ms(record.at_ms, "time")
    Setting.parse(record.field, record.value)


def _finished(record: Finished) -> None:
    check.need(record.state in ENDED_STATES, "state", record.state)
    check.need(len(record.counts) == len(Outcome), "counts", record.counts)
    for count in record.counts:
        check.number(count, "count", MAX_COUNT)
    check.time_ms(record.at_ms, "time")
    check.reason(record.reason)


def _epoch_started(record: EpochStarted) -> None:
    check.need(_EPOCH.fullmatch(record.epoch), "epoch", record.epoch)
    check.time_ms(record.at_ms, "time")
    check.need(len(record.address) <= MAX_REASON_BYTES, "address", record.address)
    check.number(record.claim_ms, "longest claim", MAX_CLAIM_MS)


def _epoch_mark(record: EpochMark) -> None:
    check.need(_EPOCH.fullmatch(record.epoch), "epoch", record.epoch)


def _restated(record: Restated) -> None:
    check.need(_POSITION.fullmatch(record.position), "position", record.position)


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
