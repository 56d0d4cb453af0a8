"""Make snapshots of the fold periodically, and restore the newest one into an empty view."""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Protocol

from backends.redis.epochs import Epoch
from consumers.upkeep.folder import Held
from dispatcher.clock import Clock
from dispatcher.model.errors import FairlaneError, Unreachable
from dispatcher.ports import ControlLog, RecordReader
from dispatcher.wire.control import FORMAT as CONTROL_FORMAT
from dispatcher.wire.control import EpochStarted
from dispatcher.wire.snapshot import (
    FORMAT,
    Begun,
    Chunk,
    Cursors,
    Packer,
    Record,
    TaskPart,
    check,
    parts_of,
    records_of,
)
from quotas.snapshots import RedisSnapshots

_log = logging.getLogger(__name__)
_READ, _READ_S = 16, 1.0
_CONTROL_READ_S = 30.0
"""How long the control topic's fold may take to reach its end before a snapshot is postponed."""
_TRIES = 5
"""How often a snapshot (or the list of them) that does not answer is tried before it is skipped. The tries are a second
apart, and nothing is granted for 13 s anyway."""
_LIST = ""


class SnapshotStore(Protocol):
    """Stores snapshots by number (wall ms of their beginning, or what comes after the newest). Every method raises
    Unreachable if their server cannot be reached."""

    def numbers(self) -> list[str]:
        """Return the numbers, newest first, including those of incomplete snapshots."""

    def write(self, number: str, records: Iterable[Record]) -> None:
        """Store the records of a new snapshot in this order. Return once all are stored."""

    def reader(self, number: str) -> RecordReader:
        """Open a snapshot for reading. Raises NotFound."""

    def delete(self, number: str) -> None: ...


@dataclass(frozen=True, kw_only=True)
class SnapshotSettings:
    """How often snapshots are made, how large their records are, and how many are kept."""

    partitions: int
    """The number of outcome topics."""
    every_s: float = 600.0
    """The time between two snapshots, if anything was folded."""
    rest: float = 30.0
    """The minimum time between two snapshots, as a multiple of the duration of one."""
    chunk_bytes: int = 1 << 19
    """The size of a record."""
    pause_s: float = 0.005
    """The pause after each page, which leaves Redis to others."""
    again_s: float = 10.0
    """The time after a failed snapshot."""
    keep: int = 3
    """How many snapshots are kept, including incomplete ones."""


class _Abandoned(Exception):
    """The snapshot would be incomplete."""


@dataclass(eq=False)
class Snapshotter:
    """Makes snapshots. Runs in every worker; only the elected one acts.

    Two of them do no harm: each snapshot has a topic of its own.
    """

    view: RedisSnapshots
    store: SnapshotStore
    control: ControlLog
    epoch: Callable[[], Epoch | None]
    """Returns the epoch of the current view. Raises Unreachable."""
    held: Held
    """Whether this worker holds the job."""
    clock: Clock
    settings: SnapshotSettings
    _last: Cursors | None = None
    _next_s: float = 0.0

    def run(self, stop: threading.Event) -> None:
        """Run until `stop` is set. Waits for a server that is gone."""
        if not self.settings.every_s:
            return
        was_held = False
        while not stop.wait(min(1.0, self.settings.every_s)):
            try:
                is_held = self.held()
                if is_held and not was_held:
                    self._next_s = self.clock.monotonic_s() + self.settings.every_s - self._age_s()
                was_held = is_held
                if is_held and self.clock.monotonic_s() >= self._next_s and self._cursors() != self._last:
                    self.take(stop)
            except FairlaneError as error:
                log = _log.debug if isinstance(error, Unreachable) else _log.warning
                log("no snapshot is made: %s", error)
                stop.wait(self.settings.again_s)

    def _age_s(self) -> float:
        """Return the age of the newest snapshot of any worker; without one, the age of the view."""
        newest, epoch = next(iter(self.store.numbers()), ""), self.epoch()
        began_ms = int(newest) if newest.isdecimal() else epoch.started_ms if epoch else self.clock.wall_ms()
        return min(max(0.0, (self.clock.wall_ms() - began_ms) / 1000), self.settings.every_s)

    def _cursors(self) -> Cursors:
        return self.view.cursors(self.settings.partitions)

    def _complete(self) -> str:
        """Return the epoch if its view is complete, else an empty text."""
        epoch = self.epoch()
        return epoch.id if epoch is not None and epoch.ready else ""

    def take(self, stop: threading.Event) -> str:
        """Make a snapshot now and return its number. Raises Unreachable.

        Return '' if the view is not complete, was emptied meanwhile, or `stop` was set.
        """
        started_s, cursors, epoch = self.clock.monotonic_s(), self._cursors(), self._complete()
        if not epoch:
            return ""
        last = cursors._replace(control=self._read_control(epoch, stop))
        number, packer = self._new_number(), Packer(self.settings.chunk_bytes)
        begun, is_written = Begun(FORMAT, self.clock.wall_ms(), cursors), False
        try:
            self.store.write(number, self._records(packer, begun, epoch, stop))
            is_written = True
        except _Abandoned:
            pass
        finally:
            if not is_written:
                with suppress(FairlaneError):
                    self.store.delete(number)
        took_s = self.clock.monotonic_s() - started_s
        self._next_s = started_s + max(self.settings.every_s, self.settings.rest * took_s)
        if not is_written:
            return ""
        self._last = last
        _log.info("snapshot %s: %d tasks, in %.1f s", number, packer.tasks, took_s)
        for old in self.store.numbers()[self.settings.keep :]:
            self.store.delete(old)
        return number

    def _new_number(self) -> str:
        """Return a number after those of all snapshots, also if the clock of who made them is ahead of ours."""
        newest = max((int(number) for number in self.store.numbers() if number.isdecimal()), default=0)
        return f"{max(self.clock.wall_ms(), newest + 1):016d}"

    def _read_control(self, epoch: str, stop: threading.Event) -> str:
        """Wait until the control topic is folded up to now. Return its cursor at that point.

        A snapshot leaves out outcomes that were folded before their task's record. So it must not be taken between the
        two.
        """
        position = self.control.append(EpochStarted(CONTROL_FORMAT, epoch, self.clock.wall_ms()))
        deadline_s = self.clock.monotonic_s() + _CONTROL_READ_S
        while self._cursors().control < position:
            if stop.wait(0.05) or self.clock.monotonic_s() > deadline_s:
                raise Unreachable(
                    "The fold of the control topic does not reach its end.",
                    "Check that workers are running (`fairlane worker list`).",
                )
        return position

    def _records(self, packer: Packer, begun: Begun, epoch: str, stop: threading.Event) -> Iterator[Record]:
        """Yield the records of a snapshot. Raises _Abandoned if it would be incomplete."""
        yield begun
        for parts in self.view.parts():
            yield from packer.add(parts)
            if stop.wait(self.settings.pause_s):
                raise _Abandoned
        if self._complete() != epoch:  # the view was emptied meanwhile
            raise _Abandoned
        yield from packer.end()


class Restorer:
    """Restores the newest complete snapshot. Without one the folds read everything.

    A snapshot of an older version has the right counts, since they come from the same records. But that version skipped
    control records that this one can read, so the control topic is read from its beginning again.
    """

    def __init__(self, view: RedisSnapshots, store: SnapshotStore, partitions: int) -> None:
        self._view = view
        self._store = store
        self._partitions = partitions
        self._failures: Counter[str] = Counter()

    def restore(self, epoch: str) -> None:
        """Restore a snapshot into the view of an epoch that waits for it. Raises Unreachable; it may then be done
        again."""
        numbers = self._numbers()
        restorer = self._view.begin_restore(epoch)
        usable = (number for number in numbers if self._failures[number] < _TRIES)
        if restorer and not any(self._restored(number, restorer) for number in usable):
            if numbers:
                words = "none of %d snapshots can be used: control and outcome topics are read from their beginnings"
                _log.warning(words, len(numbers))
            self._view.end_restore(restorer, None)
        self._failures.clear()

    def _numbers(self) -> list[str]:
        """Return the numbers of snapshots; none if they cannot be listed, since a view can be made without them."""
        try:
            return self._store.numbers()
        except FairlaneError as error:
            self._failures[_LIST] += 1
            if isinstance(error, Unreachable) and self._failures[_LIST] < _TRIES:
                raise
            _log.warning("snapshots cannot be listed, so the topics are read from their beginnings: %s", error)
            return []

    def _restored(self, number: str, restorer: str) -> bool:
        """Restore one snapshot. Return False if it cannot be used."""
        try:
            begun = check(self._records(number), self._partitions)
            tasks = self._put(number, restorer)
        except Unreachable:
            self._failures[number] += 1
            raise
        except FairlaneError as error:
            _log.warning("snapshot %s is skipped: %s", number, error)
            return False
        cursors = begun.cursors if begun.format == FORMAT else begun.cursors._replace(control="")
        if tasks is not None and self._view.end_restore(restorer, cursors):
            _log.info("the view begins with snapshot %s (%d tasks)", number, tasks)
        return True

    def _put(self, number: str, restorer: str) -> int | None:
        """Restore the parts. Return the number of tasks; None if Redis now holds another view, or another restorer took
        over."""
        tasks = 0
        for record in self._records(number):
            if isinstance(record, Chunk):
                parts = parts_of(record)
                tasks += sum(isinstance(part, TaskPart) for part in parts)
                if not self._view.restore_parts(restorer, parts):
                    return None
        return tasks

    def _records(self, number: str) -> Iterator[Record]:
        with closing(self._store.reader(number)) as reader:
            yield from records_of(_bodies(reader))


def _bodies(reader: RecordReader) -> Iterator[bytes]:
    """Yield all bodies stored by now."""
    while True:
        records = reader.read(_READ, _READ_S)
        if not records and reader.at_end():
            return
        for stored in records:
            yield stored.body
