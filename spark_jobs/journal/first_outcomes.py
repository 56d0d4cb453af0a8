"""Find the outcomes of a record that are the first final ones of their targets: the fold's rule, for the journal.

The state is small. For each writer of a task it has the envelopes whose targets are all final, as ranges, and for each
other envelope which of its targets are final. Like the journal's rows, it is a function of the topic up to a position.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from dispatcher.model.task import TOMBSTONE_MS
from dispatcher.wire.outcome import OUTCOME_NAMES, CloseTask, Mixed, Outcomes, Run

_FINAL = len(OUTCOME_NAMES)
_LONGEST_ROWS = 1 << 16


class PartialOutcome(NamedTuple):
    """Targets of one envelope, by their positions in it, and the outcome of each."""

    writer: str
    attempt: int
    sequence: int
    positions: list[int]
    codes: list[int]


Piece = Run | PartialOutcome


def _cut(run: Run, start: int, end: int) -> Iterator[Run]:
    """Cut the envelopes start..end (exclusive) of a run into pieces of bounded size, whatever the record contains."""
    step = max(1, _LONGEST_ROWS // max(1, run.size))
    for first in range(start, end if run.size else start, step):
        yield replace(run, first=first, count=min(step, end - first))


class Ranges(msgspec.Struct, array_like=True):
    """A set of integers, as disjoint ranges that do not touch: starts, and ends (exclusive)."""

    starts: list[int] = []
    ends: list[int] = []

    def __contains__(self, number: int) -> bool:
        index = bisect_right(self.starts, number) - 1
        return index >= 0 and number < self.ends[index]

    def add(self, start: int, end: int) -> list[tuple[int, int]]:
        """Add start..end (exclusive). Returns the parts of it that were not in the set."""
        starts, ends = self.starts, self.ends
        low, high = bisect_left(ends, start), bisect_right(starts, end)
        added, at = [], start
        for index in range(low, high):
            if starts[index] > at:
                added.append((at, starts[index]))
            at = max(at, ends[index])
        if at < end:
            added.append((at, end))
        if low < high:
            start, end = min(start, starts[low]), max(end, ends[high - 1])
        starts[low:high] = [start]
        ends[low:high] = [end]
        return added


class WriterState(Ranges, array_like=True):
    """The state of one writer of a task: the sequences of the envelopes whose targets are all final, and open ones."""

    open: dict[int, bytes] = {}
    """For each envelope that is not final: the bits of the positions that are."""

    def run(self, run: Run) -> Iterator[Piece]:
        for start, end in self.add(run.first, run.first + run.count):
            at = start
            for sequence in self._open_between(start, end):
                yield from _cut(run, at, sequence)
                done = int.from_bytes(self.open.pop(sequence))
                positions = [position for position in range(run.size) if not done >> position & 1]
                yield PartialOutcome(run.writer, run.attempt, sequence, positions, [run.code] * len(positions))
                at = sequence + 1
            yield from _cut(run, at, end)

    def mixed(self, mixed: Mixed) -> Iterator[PartialOutcome]:
        sequence = mixed.sequence
        if sequence in self:
            return
        done = int.from_bytes(self.open.get(sequence, b""))
        positions = range(len(mixed.codes)) if mixed.positions is None else mixed.positions
        new_codes = {
            position: code
            for position, code in dict(zip(positions, mixed.codes, strict=False)).items()
            if code < _FINAL and position < mixed.size and not done >> position & 1
        }
        if not new_codes:
            return
        done |= sum(1 << position for position in new_codes)
        if done == (1 << mixed.size) - 1:
            self.open.pop(sequence, None)
            self.add(sequence, sequence + 1)
        else:
            self.open[sequence] = done.to_bytes((done.bit_length() + 7) // 8)
        yield PartialOutcome(mixed.writer, mixed.attempt, sequence, list(new_codes), list(new_codes.values()))

    def _open_between(self, start: int, end: int) -> list[int]:
        if end - start <= len(self.open):
            return [sequence for sequence in range(start, end) if sequence in self.open]
        return sorted(sequence for sequence in self.open if start <= sequence < end)


class TaskState(msgspec.Struct, array_like=True):
    """The state of a task."""

    last_ms: int = 0
    closed: bool = False
    writers: dict[str, WriterState] = {}

    def writer(self, name: str) -> WriterState:
        return self.writers.setdefault(name, WriterState())


class FirstOutcomes:
    """Decides which outcomes count, from the records of one outcome topic in order."""

    def __init__(self) -> None:
        self._tasks: dict[str, TaskState] = {}
        self._touched: set[str] = set()
        self._latest_ms = 0

    def of(self, record: Outcomes) -> Iterator[Piece]:
        """Yield the final outcomes of the record that are the first of their targets.

        Exhaust the iterator before the next call: outcomes that were not consumed are not remembered.
        """
        task = self._task(record.task, record.at_ms)
        if task.closed:
            return
        for run in record.runs:
            if run.size:
                yield from task.writer(run.writer).run(run)
        for mixed in record.mixed:
            yield from task.writer(mixed.writer).mixed(mixed)

    def close(self, record: CloseTask) -> bool:
        """Return whether this record closes the task: False if an earlier one did. Later outcomes do not count."""
        task = self._task(record.task, record.at_ms)
        was_open, task.closed = not task.closed, True
        return was_open

    def _task(self, name: str, at_ms: int) -> TaskState:
        task = self._tasks.get(name)
        if task is None or at_ms - task.last_ms > TOMBSTONE_MS:
            task = self._tasks[name] = TaskState()
        task.last_ms = max(task.last_ms, at_ms)
        self._latest_ms = max(self._latest_ms, at_ms)
        self._touched.add(name)
        return task

    # ------------------------------------------------------------- storing
    def changes(self) -> dict[str, TaskState]:
        """Return the state of the tasks that had records since `restore`."""
        return {name: self._tasks[name] for name in sorted(self._touched)}

    def everything(self) -> dict[str, TaskState]:
        """Return the whole state, without tasks that are too old."""
        oldest_ms = self._latest_ms - TOMBSTONE_MS
        return {name: task for name, task in self._tasks.items() if task.last_ms >= oldest_ms}

    def restore(self, parts: Iterable[dict[str, TaskState]]) -> None:
        """Restore the state from parts. If several parts have a task, the last one counts."""
        self._tasks = {}
        for part in parts:
            self._tasks |= part
        self._latest_ms = max((task.last_ms for task in self._tasks.values()), default=0)
        self._touched = set()
