"""The known state of a submission: from the registry or, while that is incomplete, from the control topic itself."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Protocol

from backends.redis.task_rows import SubmissionRow
from dispatcher.model.errors import Malformed, NotReady
from dispatcher.model.view import ENDED_STATES, Admission, HoldAction, InFlight, SubmitLease
from dispatcher.ports import OpenReader, StoredRecord
from dispatcher.wire.control import (
    MAIN_WRITER,
    Announced,
    Checkpoint,
    ControlChange,
    ControlRecord,
    Finished,
    Sealed,
    TakenOver,
    TaskRecord,
    override_number,
)
from dispatcher.wire.control_checks import read_control
from dispatcher.wire.submission import submitter_at, written_ahead
from producers.ports import Readiness, Submission

_BATCH = 1_000
_READ_S = 1.0


class SubmissionTable(Protocol):
    """The part of backends.redis.registry.Registry that is used here."""

    def apply(self, position: str, record: ControlRecord) -> None: ...

    def apply_all(self, records: Sequence[tuple[str, ControlRecord]]) -> None: ...

    def submission(self, task: str) -> SubmissionRow | None: ...

    def in_flight(self, tasks: Sequence[str]) -> Mapping[str, InFlight]: ...

    def admit(self, record: TaskRecord, who: str = "") -> Admission: ...

    def hold_submission(self, action: HoldAction, task: str, submitter: str, who: str = "") -> SubmitLease: ...

    def start_submission(
        self, position: str, record: TaskRecord, by: str
    ) -> tuple[SubmitLease, SubmissionRow | None]: ...

    def seal_submission(self, position: str, seal: Sealed) -> bool: ...

    def control_cursor(self) -> str | None: ...


class KnownSubmissions:
    """Implements Registrar. control: opens a reader of the control topic behind a position, or at its beginning
    (None)."""

    def __init__(self, registry: SubmissionTable, epochs: Readiness, control: OpenReader) -> None:
        self._registry = registry
        self._epochs = epochs
        self._control = control

    def apply(self, position: str, record: ControlRecord) -> None:
        """Apply a record, as the registry does."""
        self._registry.apply(position, record)

    def admit(self, record: TaskRecord, who: str = "") -> Admission:
        """Admit a task, as the registry does."""
        return self._registry.admit(record, who)

    def hold_submission(self, action: HoldAction, task: str, submitter: str, who: str = "") -> SubmitLease:
        """Take, renew or release a lease, as the registry does."""
        return self._registry.hold_submission(action, task, submitter, who)

    def start_submission(self, position: str, record: TaskRecord, by: str) -> tuple[SubmitLease, Submission | None]:
        """Start a submission, as the registry does."""
        lease, row = self._registry.start_submission(position, record, by)
        return lease, self._known(record.task, row)

    def seal_submission(self, position: str, seal: Sealed) -> bool:
        """Apply a seal, as the registry does."""
        return self._registry.seal_submission(position, seal)

    def apply_all(self, records: Sequence[tuple[str, ControlRecord]]) -> None:
        """Apply records, as the registry does."""
        self._registry.apply_all(records)

    def in_flight(self, tasks: Sequence[str]) -> Mapping[str, InFlight]:
        """Return what is in flight, as the registry does."""
        return self._registry.in_flight(tasks)

    def submission(self, task: str) -> Submission | None:
        """Return the submission; None if the task does not exist. Raises Unreachable."""
        return self._known(task, self._registry.submission(task))

    def _known(self, task: str, row: SubmissionRow | None) -> Submission | None:
        if row is None and not self._epochs.ready():
            row = self._read(task, None, None)
        return None if row is None else _submission(row)

    def submission_at(self, task: str, position: str) -> Submission:
        """Return the submission according to the control topic up to a position; the view may be behind.

        Raises Unreachable; NotReady if the topic has no record of the task.
        """
        cursor = self._registry.control_cursor()
        row = self._registry.submission(task)
        if not self._epochs.ready():  # checked last: then everything read before came from a complete view
            cursor = row = None
        row = self._read(task, row, cursor, position)
        if row is None:
            raise NotReady(f"The control topic does not show task {task} yet.", "Submit it again in some seconds.")
        return _submission(row)

    def _read(
        self, task: str, row: SubmissionRow | None, after: str | None, upto: str | None = None
    ) -> SubmissionRow | None:
        """Add the topic's records after a position, up to another (None: its end)."""
        read = set[str]()
        last = after or ""
        with closing(self._control(after)) as reader:
            while (upto is None or last < upto) and not reader.at_end():
                for stored in reader.read(_BATCH, _READ_S):
                    last = stored.position
                    known = _of_task(task, stored)
                    if known is not None and known[0] not in read:
                        read.add(known[0])
                        row = with_record(row, *known)
        return row


def _of_task(task: str, stored: StoredRecord) -> tuple[str, ControlRecord] | None:
    """Return a record of the task with its original position; None for others.

    Malformed records are skipped, as everywhere: the folds report them.
    """
    try:
        position, record = read_control(stored.position, stored.body)
    except Malformed:
        return None
    return (position, record) if getattr(record, "task", None) == task else None


def _submission(row: SubmissionRow) -> Submission:
    ahead = written_ahead(row.record, row.entries, row.checkpoint)
    found = Submission(
        row.record,
        stopped=row.state if row.state in ENDED_STATES else "",
        ended=row.ended,
        shares_lane=row.shares_lane,
        edits=row.override,
        edited_at=row.override_pos,
        lane=row.lane or row.record.lane,
        position=row.record_pos,
        ahead=ahead,
    )
    if row.seal is not None:
        return replace(found, published=row.seal.targets, digest=row.seal.digest, sealed=True)
    if row.checkpoint is not None:
        point = row.checkpoint
        return replace(found, sequences=point.sequence, published=point.targets, digest=point.digest)
    return found


def with_record(row: SubmissionRow | None, position: str, record: ControlRecord) -> SubmissionRow | None:
    """Return a task's row after one more record. The first record and the first seal in the topic count, and the
    furthest checkpoint."""
    if row is None:
        return _first(record, position) if isinstance(record, TaskRecord) else None
    match record:
        case TaskRecord() if position < row.record_pos:
            moved = row.lane != row.record.lane
            row = row if moved else row._replace(lane=record.lane, shares_lane=record.shared)
            row = row._replace(record=record, record_pos=position)
        case Announced() | TakenOver():
            row = row._replace(entries={**row.entries, position: record})
        case Sealed() if row.seal is None and _may_seal(row, record, position):
            row = row._replace(seal=record)
        case Checkpoint(writer=writer) if writer == MAIN_WRITER and _further(record, row.checkpoint):
            row = row._replace(checkpoint=record)
        case Finished(state=state):
            row = row._replace(state=state, ended=True)
        case ControlChange():
            row = _changed(row, record)
    return row


def _first(record: TaskRecord, position: str) -> SubmissionRow:
    return SubmissionRow(
        record=record,
        state="running",
        ended=False,
        checkpoint=None,
        seal=None,
        shares_lane=record.shared,
        lane=record.lane,
        record_pos=position,
    )


def _may_seal(row: SubmissionRow, seal: Sealed, position: str) -> bool:
    return not seal.submitter or seal.submitter == submitter_at(row.record, row.entries, position)


def _changed(row: SubmissionRow, change: ControlChange) -> SubmissionRow:
    match change.field:
        case "cancelled" if not row.ended:
            return row._replace(state="cancelled")
        case "stopped" if not row.ended and row.state != "cancelled":
            return row._replace(state="failed")
        case "close" if not row.ended:
            return row._replace(state="failed")
        case "lane":
            return row._replace(shares_lane=False, lane=change.value)
        case "override":
            return row._replace(override=max(override_number(change.value), row.override + 1))
    return row


def _further(new: Checkpoint, known: Checkpoint | None) -> bool:
    return known is None or new.sequence >= known.sequence
