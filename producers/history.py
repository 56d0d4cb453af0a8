"""What is known of a submission: from the registry, or, while that is not complete, from the control topic itself."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Protocol

from backends.task_rows import SubmissionRow
from dispatcher.control import (
    MAIN_WRITER,
    Checkpoint,
    ControlChange,
    ControlRecord,
    Finished,
    Sealed,
    TaskRecord,
    decode_control,
    original,
    override_number,
)
from dispatcher.view import ENDED_STATES, Admission
from producers.ports import InFlight, Submission

_BATCH = 1_000
_READ_S = 1.0


class Registry(Protocol):
    """The part of backends.registry.Registry that is used here."""

    def apply(self, position: str, record: ControlRecord) -> list[str]: ...

    def apply_all(self, records: Sequence[tuple[str, ControlRecord]]) -> list[str]: ...

    def submission(self, task: str) -> SubmissionRow | None: ...

    def in_flight(self, tasks: Sequence[str]) -> Mapping[str, tuple[int, int, int]]: ...

    def admit(self, record: TaskRecord) -> Admission: ...


class Readiness(Protocol):
    def ready(self) -> bool:
        """Whether the registry is complete."""
        ...


class Stored(Protocol):
    @property
    def position(self) -> str: ...
    @property
    def body(self) -> bytes: ...


class Reader(Protocol):
    def read(self, max_records: int, timeout_s: float) -> Sequence[Stored]: ...

    def at_end(self) -> bool: ...

    def close(self) -> None: ...


class KnownSubmissions:
    """Implements Registrar. control: opens a reader of the control topic at its beginning."""

    def __init__(self, registry: Registry, epochs: Readiness, control: Callable[[], Reader]) -> None:
        self._registry = registry
        self._epochs = epochs
        self._control = control

    def apply(self, position: str, record: ControlRecord) -> list[str]:
        """As the registry's."""
        return self._registry.apply(position, record)

    def admit(self, record: TaskRecord) -> Admission:
        """As the registry's."""
        return self._registry.admit(record)

    def apply_all(self, records: Sequence[tuple[str, ControlRecord]]) -> list[str]:
        """As the registry's."""
        return self._registry.apply_all(records)

    def in_flight(self, tasks: Sequence[str]) -> Mapping[str, InFlight]:
        """As the registry's."""
        return {task: InFlight(*counts) for task, counts in self._registry.in_flight(tasks).items()}

    def submission(self, task: str) -> Submission | None:
        """None: no such task. Raises Unreachable."""
        row = self._registry.submission(task)
        if row is None and not self._epochs.ready():
            row = self._read_back(task)
        return None if row is None else _submission(row)

    def _read_back(self, task: str) -> SubmissionRow | None:
        row: SubmissionRow | None = None
        read = set[str]()
        with closing(self._control()) as reader:
            while not reader.at_end():
                for stored in reader.read(_BATCH, _READ_S):
                    position, record = original(stored.position, decode_control(stored.body))
                    if getattr(record, "task", None) == task and position not in read:
                        read.add(position)
                        row = _told(row, record)
        return row


def _submission(row: SubmissionRow) -> Submission:
    found = Submission(
        row.record,
        stopped=row.state if row.state in ENDED_STATES else "",
        ended=row.ended,
        shares_lane=row.shares_lane,
        edits=row.override,
        edited_at=row.override_pos,
    )
    if row.seal is not None:
        return replace(found, published=row.seal.targets, digest=row.seal.digest, sealed=True)
    if row.checkpoint is not None:
        point = row.checkpoint
        return replace(found, sequences=point.sequence, published=point.targets, digest=point.digest)
    return found


def _told(row: SubmissionRow | None, record: ControlRecord) -> SubmissionRow | None:
    """What is known of a task after one more record of it, in the topic's order: of records and seals the first counts,
    of checkpoints the furthest."""
    if row is None:
        if not isinstance(record, TaskRecord):
            return None
        return SubmissionRow(record, "running", False, None, None, shares_lane=record.shared)
    match record:
        case Sealed() if row.seal is None:
            row = row._replace(seal=record)
        case Checkpoint(writer=writer) if writer == MAIN_WRITER and _further(record, row.checkpoint):
            row = row._replace(checkpoint=record)
        case ControlChange(field="cancelled") if not row.ended:
            row = row._replace(state="cancelled")
        case ControlChange(field="stopped") if not row.ended and row.state != "cancelled":
            row = row._replace(state="failed")
        case ControlChange(field="lane"):
            row = row._replace(shares_lane=False)
        case ControlChange(field="override", value=value):
            row = row._replace(override=max(override_number(value), row.override + 1))
        case Finished(state=state):
            row = row._replace(state=state, ended=True)
    return row


def _further(new: Checkpoint, known: Checkpoint | None) -> bool:
    return known is None or new.sequence >= known.sequence
