"""Writes what was said long ago into the control topic again, before it forgets it."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from consumers.upkeep.epoch_state import EpochState
from dispatcher.clock import Clock
from dispatcher.wire.control import Restated

_log = logging.getLogger(__name__)
_DAY_MS = 86_400_000


class Records(Protocol):
    """What the view holds, as the records that made it. All raise Unreachable."""

    def settings(self) -> Sequence[Restated]: ...

    def tasks(self, accepted_before_ms: int, ended_since_ms: int, lived_ms: int) -> Sequence[str]:
        """The live ones that were accepted before a time; and those that ended since another after so long a life."""
        ...

    def of_tasks(self, tasks: Sequence[str]) -> Sequence[Restated]: ...

    def last_ms(self) -> int:
        """When all this was last restated; 0: long ago, or in another view."""
        ...

    def restated(self, at_ms: int) -> None: ...


class Appendable(Protocol):
    """The control topic. Raises Unreachable."""

    def append_many(self, records: Sequence[Restated]) -> object:
        """Returns once all are stored."""
        ...


@dataclass(frozen=True)
class RestateSettings:
    """every_ms: between two times, a small part of what the topic is kept for; what is younger is not restated.
    early_ms: by how much the clocks may differ that say when something ended. at_once: tasks."""

    every_ms: int = _DAY_MS
    early_ms: int = 3_600_000
    at_once: int = 200


class Restater:
    """A chore of the housekeeper, for a view that is made from the topic alone: settings, and tasks that live long, are
    in it however long ago they were set and accepted.

    Each record keeps the place where it was said first, so it does not matter what changes while they are read and
    written, or whether two do it at once. But a task may end meanwhile, and the topic forgets its end before it forgets
    that the task was restated behind it. So the ends of such tasks are restated the next time.
    """

    def __init__(
        self,
        records: Records,
        control: Appendable,
        epoch: Callable[[], EpochState | None],
        announce: Callable[[], None],
        clock: Clock,
        settings: RestateSettings = RestateSettings(),
    ) -> None:
        """announce: says once more that there is a view (`Rebuilder.restate`)."""
        self._records = records
        self._control = control
        self._epoch = epoch
        self._announce = announce
        self._clock = clock
        self._settings = settings

    def round(self) -> None:
        """Restates everything if it is due and the view is complete. Raises Unreachable: it is then done again."""
        now_ms, last_ms, epoch = self._clock.wall_ms(), self._records.last_ms(), self._ready_epoch()
        # Dated in the future, it was done by a clock that was wrong.
        if not epoch or 0 <= now_ms - last_ms < self._settings.every_ms:
            return
        # One that cannot be told when it was done (Redis is full) would do it over and over.
        self._records.restated(last_ms)
        self._announce()
        count = 0
        for page in self._pages(now_ms, last_ms):
            self._control.append_many(page)
            count += len(page)
        # Of a view that was emptied meanwhile a part was read.
        if self._ready_epoch() == epoch:
            self._records.restated(now_ms)
        _log.info("%d records of long ago are restated in the control topic", count)

    def _pages(self, now_ms: int, last_ms: int) -> Iterator[Sequence[Restated]]:
        every_ms, early_ms, at_once = self._settings.every_ms, self._settings.early_ms, self._settings.at_once
        yield self._records.settings()
        tasks = self._records.tasks(now_ms - every_ms, last_ms - early_ms, every_ms - early_ms)
        for first in range(0, len(tasks), at_once):
            yield self._records.of_tasks(tasks[first : first + at_once])

    def _ready_epoch(self) -> str:
        """Of the view, if it is complete."""
        epoch = self._epoch()
        return epoch.id if epoch is not None and epoch.ready else ""
