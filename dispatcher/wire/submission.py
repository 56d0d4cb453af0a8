"""Find out from the control topic which client may submit a task, and how much of its audience is announced.

There is one submitter at a time: the one in the task's record, until a `TakenOver` names another. Nothing is published
before it is announced. So a submitter that takes over knows the windows and the digest of everything that may be in the
lane.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from dispatcher.model.task_control import Control
from dispatcher.model.view import ENDED_STATES
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
)

Entries = Mapping[str, Announced | TakenOver]
"""Records by their positions in the control topic."""


class WindowEnd(NamedTuple):
    """The number of targets up to the end of an announced window, and the digest of all of them."""

    targets: int
    digest: str


class WrittenAhead(NamedTuple):
    """The current submitter of a task and the announced windows."""

    submitter: str = ""
    """The current submitter."""
    before: str = ""
    """The submitter before it, or the same if nobody took over."""
    taken_ms: int = 0
    """When the current one took over; 0: it was the first."""
    ends: tuple[WindowEnd, ...] = ()
    """Ends of the announced windows that are not below the last checkpoint, ascending."""


def written_ahead(record: TaskRecord, entries: Entries, checkpoint: Checkpoint | None = None) -> WrittenAhead:
    """Return the submitter and the announced windows after a task's entries, which are folded in the topic's order.

    A takeover counts if its lease is later than those before. An announcement counts if its submitter is the current
    one at its position, and its window starts where the last one ended, or later: windows below a checkpoint are
    forgotten.
    """
    submitter, before, taken_ms = record.submitter, record.submitter, 0
    ends = [WindowEnd(record.announced, record.announced_digest)] if record.announced_digest else []
    for _, entry in sorted(entries.items()):
        if isinstance(entry, TakenOver):
            if entry.at_ms > taken_ms:
                submitter, before, taken_ms = entry.submitter, submitter, entry.at_ms
        elif entry.submitter == submitter and entry.first >= (ends[-1].targets if ends else 0):
            ends.append(WindowEnd(entry.targets, entry.digest))
    stored = checkpoint.targets if checkpoint is not None else 0
    return WrittenAhead(submitter, before, taken_ms, tuple(end for end in ends if end.targets > stored))


def submitter_at(record: TaskRecord, entries: Entries, position: str) -> str:
    """Return the current submitter at a position of the topic."""
    return written_ahead(record, {at: entry for at, entry in entries.items() if at < position}).submitter


def without_passed(records: Sequence[tuple[str, ControlRecord]]) -> list[tuple[str, ControlRecord]]:
    """Leave out checkpoints and announcements that a later checkpoint of the same records passes.

    A view that applies the others is the same. A gradual audience announces up to 80 windows a second and stores a
    checkpoint a second. A fold that reads a day of it from the beginning would apply each.
    """
    points = sorted((record for _, record in records if isinstance(record, Checkpoint)), key=lambda each: each.sequence)
    furthest = {(point.task, point.writer): point for point in points}

    def is_passed(record: ControlRecord) -> bool:
        match record:
            case Checkpoint(task=task, writer=writer, sequence=sequence):
                return sequence < furthest[task, writer].sequence
            case Announced(task=task, targets=targets):
                point = furthest.get((task, MAIN_WRITER))
                return point is not None and targets <= point.targets
        return False

    return [(position, record) for position, record in records if not is_passed(record)]


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a task's submission."""

    record: TaskRecord
    position: str = ""
    """Position of the task's record."""
    lane: str = ""
    """The lane the task's envelopes go to now."""
    shared: bool = False
    """Whether the task is still in a shared lane."""
    state: str = "running"
    """As in TaskView."""
    ended: bool = False
    """Whether its tombstone is written."""
    checkpoint: Checkpoint | None = None
    """The furthest checkpoint of the main writer."""
    seal: Sealed | None = None
    """The seal that counts; None also for a task that was closed before its seal."""
    edits: int = 0
    """The number of the last edit of the message; 0: none."""
    edited_at: str = ""
    """Position of the last edit in the control topic; empty if unknown."""
    entries: Entries = {}
    """Records that tell who submits the task and how far its audience is written ahead."""

    @property
    def sealed(self) -> bool:
        return self.seal is not None

    @property
    def sequences(self) -> int:
        """All envelopes below this sequence are stored; 0 once the task is sealed."""
        return self.checkpoint.sequence if self.checkpoint is not None and self.seal is None else 0

    @property
    def published(self) -> int:
        """Targets in the stored envelopes. Once sealed: the total."""
        stored = self.seal or self.checkpoint
        return stored.targets if stored is not None else 0

    @property
    def digest(self) -> str:
        """Digest of the targets in the stored envelopes. Once sealed: of the whole audience."""
        stored = self.seal or self.checkpoint
        return stored.digest if stored is not None else ""

    @property
    def stopped(self) -> str:
        """Why the task accepts no more targets (cancelled, completed, ...), or empty. Final if it has ended."""
        return self.state if self.state in ENDED_STATES else ""

    @property
    def ahead(self) -> WrittenAhead:
        """The current submitter, and the announcements beyond `published`."""
        return written_ahead(self.record, self.entries, self.checkpoint)

    def after(self, position: str, record: ControlRecord) -> "Submission":
        """Return the submission after one more record of the task. The first record and the first seal in the topic
        count, and the furthest checkpoint."""
        new: dict[str, object] = {}
        match record:
            case TaskRecord() if position < self.position:
                new = {"record": record, "position": position}
                if self.lane == self.record.lane:
                    new |= {"lane": record.lane, "shared": record.shared}
            case Announced() | TakenOver():
                new = {"entries": {**self.entries, position: record}}
            case Sealed() if self.seal is None and self._may_seal(position, record):
                new = {"seal": record}
            case Checkpoint(writer=writer) if writer == MAIN_WRITER and self._is_behind(record):
                new = {"checkpoint": record}
            case Finished(state=state):
                new = {"state": state, "ended": True}
            case ControlChange():
                return Control.parse(record).applied(self)
        return msgspec.structs.replace(self, **new)

    def _may_seal(self, position: str, seal: Sealed) -> bool:
        return not seal.submitter or seal.submitter == submitter_at(self.record, self.entries, position)

    def _is_behind(self, point: Checkpoint) -> bool:
        return self.checkpoint is None or point.sequence >= self.checkpoint.sequence


def with_record(known: Submission | None, position: str, record: ControlRecord) -> Submission | None:
    """Return a submission after one more record; None before the task's own record."""
    if known is not None:
        return known.after(position, record)
    if not isinstance(record, TaskRecord):
        return None
    return Submission(record=record, position=position, lane=record.lane, shared=record.shared)
