"""Republish old records in the control topic before it deletes them."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from backends.redis.epochs import Epoch
from backends.redis.view_records import ViewRecords
from dispatcher.clock import Clock
from dispatcher.ports import ControlLog
from dispatcher.wire.control import Restated

_log = logging.getLogger(__name__)
_DAY_MS = 86_400_000


@dataclass(frozen=True)
class RestateSettings:
    """How often and how records are restated."""

    every_ms: int = _DAY_MS
    """Time between two runs, a small part of the topic's retention. Younger records are not restated."""
    early_ms: int = 3_600_000
    """Maximum difference between the clocks that date the ends of tasks."""
    at_once: int = 200
    """Tasks restated at once."""


@dataclass(eq=False)
class Restater:
    """Republishes old records, so that a view can always be rebuilt from the control topic alone. A housekeeper's
    chore.

    Otherwise the topic would delete settings and long-lived tasks that still apply. Each record keeps its original
    position, so concurrent changes and concurrent runs do no harm. But a task may end meanwhile, and the topic deletes
    its end before it deletes the restated task behind it. So the ends of such tasks are restated the next time.
    """

    records: ViewRecords
    control: ControlLog
    epoch: Callable[[], Epoch | None]
    announce: Callable[[], None]
    """Announces the view once more (`Rebuilder.restate`)."""
    clock: Clock
    settings: RestateSettings = field(default_factory=RestateSettings)

    def round(self) -> None:
        """Restate everything if it is due and the view is complete. Raises Unreachable; it is then done again."""
        now_ms, last_ms, epoch = self.clock.wall_ms(), self.records.last_ms(), self._ready_epoch()
        # A date in the future comes from a clock that was wrong.
        if not epoch or 0 <= now_ms - last_ms < self.settings.every_ms:
            return
        # Test that the date can be stored: with a full Redis the work would be repeated over and over.
        self.records.restated(last_ms)
        self.announce()
        count = 0
        for page in self._pages(now_ms, last_ms):
            self.control.append_many(page)
            count += len(page)
        # If the view was emptied meanwhile, only a part was read.
        if self._ready_epoch() == epoch:
            self.records.restated(now_ms)
        _log.info("%d old records are republished in the control topic", count)

    def _pages(self, now_ms: int, last_ms: int) -> Iterator[Sequence[Restated]]:
        every_ms, early_ms, at_once = self.settings.every_ms, self.settings.early_ms, self.settings.at_once
        yield self.records.settings()
        tasks = self.records.tasks(now_ms - every_ms, last_ms - early_ms, every_ms - early_ms)
        for first in range(0, len(tasks), at_once):
            yield self.records.of_tasks(tasks[first : first + at_once])

    def _ready_epoch(self) -> str:
        """Return the view's epoch if the view is complete, else an empty text."""
        epoch = self.epoch()
        return epoch.id if epoch is not None and epoch.ready else ""
