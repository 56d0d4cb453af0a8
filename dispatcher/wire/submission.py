"""Find out from the control topic who may submit a task, and how far its audience is written ahead.

There is one submitter at a time: the one in the task's record, until a `TakenOver` names another. Nothing is published
before it is announced, so a submitter that takes over knows the windows and the digest of everything that may be in the
lane.
"""

from collections.abc import Mapping
from typing import NamedTuple

from dispatcher.wire.control import Announced, Checkpoint, TakenOver, TaskRecord

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


NOTHING_AHEAD = WrittenAhead()


def written_ahead(record: TaskRecord, entries: Entries, checkpoint: Checkpoint | None = None) -> WrittenAhead:
    """Fold a task's entries in the topic's order. A takeover counts if its lease is later than those before. An
    announcement counts if its submitter is the current one at its position, and its window starts where the last one
    ended, or later: windows below a checkpoint are forgotten."""
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
