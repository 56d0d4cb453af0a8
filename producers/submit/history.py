"""The known state of a submission: from the registry or, while that is incomplete, from the control topic itself."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Protocol

from dispatcher.model.errors import Malformed, NotReady
from dispatcher.model.view import Admission, HoldAction, InFlight, SubmitLease
from dispatcher.ports import OpenReader, StoredRecord
from dispatcher.wire.control import (
    ControlRecord,
    Sealed,
    TaskRecord,
)
from dispatcher.wire.control_checks import read_control
from dispatcher.wire.submission import Submission, with_record
from producers.ports import Readiness

_BATCH = 1_000
_READ_S = 1.0


class SubmissionTable(Protocol):
    """The part of backends.redis.registry.Registry that is used here."""

    def apply(self, position: str, record: ControlRecord) -> None: ...

    def apply_all(self, records: Sequence[tuple[str, ControlRecord]]) -> None: ...

    def submission(self, task: str) -> Submission | None: ...

    def in_flight(self, tasks: Sequence[str]) -> Mapping[str, InFlight]: ...

    def admit(self, record: TaskRecord, who: str = "") -> Admission: ...

    def hold_submission(self, action: HoldAction, task: str, submitter: str, who: str = "") -> SubmitLease: ...

    def start_submission(self, position: str, record: TaskRecord, by: str) -> tuple[SubmitLease, Submission | None]: ...

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

    def _known(self, task: str, found: Submission | None) -> Submission | None:
        return self._read(task, None, None) if found is None and not self._epochs.ready() else found

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
        return row

    def _read(self, task: str, row: Submission | None, after: str | None, upto: str | None = None) -> Submission | None:
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
