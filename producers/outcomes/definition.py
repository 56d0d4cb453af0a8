"""The task that sends the letters of another task again: its message, channel and options."""

import msgspec

from dispatcher.model.errors import NotFound
from dispatcher.model.task import PushTask
from dispatcher.model.task_control import edited_message
from dispatcher.model.tier import MILLI
from dispatcher.ports import RecordReader, records_to_end
from dispatcher.wire.control import ControlChange, TaskRecord
from dispatcher.wire.envelope import decode_message
from producers.submit.history import record_of


def read_definition(task: str, reader: RecordReader) -> PushTask:
    """Return the task as it was submitted, with the last edit of its message, from the records of the control topic.

    Raises NotFound if the topic no longer has it, Unreachable.
    """
    record: tuple[str, TaskRecord] | None = None
    edit: tuple[str, str] | None = None
    for position, found in filter(None, (record_of(task, stored) for stored in records_to_end(reader))):
        if isinstance(found, TaskRecord) and not (record and record[0] <= position):
            record = position, found
        elif isinstance(found, ControlChange) and found.field == "override":
            edit = max(edit or ("", ""), (position, found.value))
    if record is None:
        raise NotFound(
            f"The record of task {task} is no longer in the control topic.",
            "Submit its targets yourself, as another task: its dead letters name them.",
        )
    return push_task(record[1], edited_message(edit[1].encode()) if edit else None)


def push_task(record: TaskRecord, message: bytes | None = None) -> PushTask:
    """Return the task of a record, to be submitted now: without an id and a start time. `message`: an edited one."""
    start_ms = max(record.start_ms, record.created_ms)
    return PushTask(
        app=record.app,
        tier=record.tier,
        channel=record.channel,
        message=decode_message(msgspec.Raw(message) if message else record.message),
        weight=record.weight / MILLI,
        cap=record.cap or None,
        cap_burst=record.cap_burst or None,
        ttl_s=(record.expires_ms - start_ms) / 1000 if record.expires_ms else None,
        hold_until_sealed=record.hold_until_sealed,
        max_attempts=record.max_attempts,
        unknown="give_up" if record.gives_up_unknown else "retry",
        retry_for_s=record.retry_for_ms / 1000 or None,
    )
