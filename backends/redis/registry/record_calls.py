"""Turn a record of the control topic into the call of the script that applies it."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from backends.redis.client import Arg
from dispatcher.model.errors import Malformed
from dispatcher.model.pools import Cap
from dispatcher.model.service_settings import ACCESS, Setting
from dispatcher.wire.control import (
    Announced,
    Checkpoint,
    ControlChange,
    ControlRecord,
    EpochStarted,
    Finished,
    GlobalChange,
    Sealed,
    TakenOver,
    TaskRecord,
    encode_control,
)

MAX_SHOWN_LENGTH = 200
"""Characters of a control's value, which may be a whole message, in the audit."""
Call = tuple[str, Sequence[Arg]]


def call_of(position: str, record: ControlRecord) -> Call | None:
    """Return the call of a Redis script that applies a control record, read at `position`, to the registry.

    None for a record that changes nothing there. An EpochMark is such a record: moving the cursor past it is enough.
    """
    maker = _CALLS.get(type(record))
    return maker(position, record) if maker else None


def task_call(position: str, record: TaskRecord) -> Call:
    """Return the call for the record of a task."""
    static: dict[str, Arg] = {
        "app": record.app,
        "channel": record.channel,
        "lane": record.lane,
        "shared": int(record.shared),
        "chunk": record.chunk,
        "partitions": record.partitions,
        "expected": record.expected_targets,
        "created_ms": record.created_ms,
        "start_ms": record.start_ms,
        "expires_ms": record.expires_ms,
        "hold": int(record.hold_until_sealed),
        "max_attempts": record.max_attempts,
        "submitter": record.submitter,
        "first": record.first,
        "record": encode_control(record),
    }
    pairs, cap = [item for pair in static.items() for item in pair], Cap(record.cap, record.cap_burst)
    return "apply_task", (record.task, position, str(record.tier), record.weight, cap.text, *pairs)


def _checkpoint_call(position: str, record: Checkpoint) -> Call:
    counts = (record.sequence, record.targets, record.refused)
    return "apply_checkpoint", (record.task, position, record.writer, *counts, encode_control(record))


def sealed_call(position: str, record: Sealed) -> Call:
    writers = ",".join(record.writers)
    counts = (record.targets, record.refused, record.digest)
    return "apply_sealed", (record.task, position, *counts, writers, record.submitter)


def _submission_call(position: str, record: Announced | TakenOver) -> Call:
    return "apply_submission", (record.task, position, encode_control(record))


def _control_call(position: str, record: ControlChange) -> Call:
    return "apply_control", (
        record.task,
        position,
        record.field,
        record.value,
        record.at_ms,
        record.by,
        record.request,
        record.value[:MAX_SHOWN_LENGTH],
    )


def _global_call(position: str, record: GlobalChange) -> Call:
    home, app = "globals", ""
    with suppress(Malformed):  # the fold skips such a record
        setting = Setting.parse(record.field, record.value)
        home, app = "access" if setting.kind in ACCESS else home, setting.app
    caller = (app, record.by, record.request)
    return "apply_global", (position, record.field, record.value, record.at_ms, home, *caller)


def _finished_call(position: str, record: Finished) -> Call:
    return "apply_finished", (record.task, position, record.state, record.at_ms, *record.counts, record.reason)


def _epoch_call(position: str, record: EpochStarted) -> Call:
    return "apply_epoch", (position, record.epoch, record.address, record.claim_ms)


_CALLS: dict[type[ControlRecord], Callable[[str, Any], Call]] = {
    TaskRecord: task_call,
    Checkpoint: _checkpoint_call,
    Sealed: sealed_call,
    Announced: _submission_call,
    TakenOver: _submission_call,
    ControlChange: _control_call,
    GlobalChange: _global_call,
    Finished: _finished_call,
    EpochStarted: _epoch_call,
}
