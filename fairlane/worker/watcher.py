"""Tells the engine which lanes to hold: at once by the registry's feed, and by a reconcile that does not need it."""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from backends.task_rows import LiveTask
from dispatcher.clock import Clock
from dispatcher.control import override_message
from dispatcher.errors import Unreachable
from dispatcher.events import LanesChanged
from dispatcher.lease import LaneKind
from dispatcher.ports import LaneInfo
from dispatcher.tier import MILLI, TIERS, Tier
from dispatcher.topics import Topics
from dispatcher.view import Change

_log = logging.getLogger(__name__)
STANDING_CHUNK = 100
"""Targets an envelope taken for granted where a lane holds many tasks."""


class LiveTasks(Protocol):
    """The registry, as the watcher needs it. All raise Unreachable."""

    def version(self) -> int:
        """Grows with every change."""
        ...

    def live(self) -> list[LiveTask]:
        """Every task that has not ended."""
        ...


class ChangeFeed(Protocol):
    """The registry's feed. Raises Unreachable."""

    def watch(self, after: bytes | None, block_ms: int) -> tuple[bytes, list[Change]]:
        """The changes after a place in the feed (None: from now on), and the place behind them; waits block_ms."""
        ...


@dataclass(frozen=True)
class WatchSettings:
    """max_lanes: most own lanes held at once. reconcile_s: between two looks that do not need the feed; full_s: between
    two that do not need the version either. gather_s: changes this close together are taken at once. tiers: lanes of
    others are left to other workers."""

    max_lanes: int = 1_000
    reconcile_s: float = 1.0
    full_s: float = 15.0
    gather_s: float = 0.02
    tiers: tuple[Tier, ...] = TIERS


class LaneWatcher:
    """One thread. changed: told all lanes to hold, and all edited messages, whenever something changed; cheap and from
    this thread."""

    def __init__(
        self,
        tasks: LiveTasks,
        feed: ChangeFeed,
        topics: Topics,
        changed: Callable[[LanesChanged], None],
        clock: Clock,
        settings: WatchSettings,
    ) -> None:
        self._tasks = tasks
        self._feed = feed
        self._topics = topics
        self._changed = changed
        self._clock = clock
        self._settings = settings
        self._live: list[LiveTask] = []
        self._told: LanesChanged | None = None
        self._place: bytes | None = None
        self._version = -1
        self._full_s = float("-inf")

    def run(self, stop: threading.Event) -> None:
        """Returns when `stop` is set. With Redis gone the engine keeps the lanes it has."""
        while not stop.is_set():
            try:
                self._place, changes = self._feed.watch(self._place, self._wait_ms())
                if changes:
                    stop.wait(self._settings.gather_s)
                self.look(bool(changes))
            except Unreachable as error:
                _log.debug("the watch of the registry waits: %s", error)
                self._place = None
                stop.wait(self._settings.reconcile_s / 2)

    def look(self, changes: bool) -> None:
        """Reads the live tasks if something may have changed; tells the lanes if these did. Raises Unreachable."""
        now_s = self._clock.monotonic_s()
        version = self._tasks.version()
        crowded = len(self._live) > self._settings.max_lanes
        if changes or crowded or version != self._version or now_s - self._full_s >= self._settings.full_s:
            self._live = self._tasks.live()
            self._version = version
            self._full_s = now_s
        self._tell(told_again=changes)

    def _tell(self, told_again: bool) -> None:
        """Said again after a change even if the lanes are the same: it unparks lanes."""
        lanes = [lane for lane in standing_lanes(self._topics) if lane.tier in self._settings.tiers]
        lanes += self._own_lanes()
        now = LanesChanged(lanes, {task.id: override_message(task.override) for task in self._live if task.override})
        if told_again or now != self._told:
            self._told = now
            self._changed(now)

    def _own_lanes(self) -> list[LaneInfo]:
        now_ms = self._clock.wall_ms()
        tiers = self._settings.tiers
        open_now = [t for t in self._live if not t.shared and t.tier in tiers and dispatching(t, now_ms)]
        return [lane_of(task) for task in working_set(open_now, self._settings.max_lanes)]

    def _wait_ms(self) -> int:
        """Until the next reconcile, or until a task's start if that is sooner."""
        now_ms = self._clock.wall_ms()
        starts = [task.start_ms - now_ms for task in self._live if task.start_ms > now_ms]
        return max(1, min([round(self._settings.reconcile_s * 1000), *starts]))


def dispatching(task: LiveTask, now_ms: int) -> bool:
    """Whether envelopes of the task may be sent now, as far as time and controls say."""
    if task.state not in ("running", "scheduled") or task.start_ms > now_ms:
        return False
    if task.expires_ms and task.expires_ms <= now_ms:
        return False
    return task.sealed or not task.hold


def lane_of(task: LiveTask) -> LaneInfo:
    return LaneInfo(
        name=task.lane,
        kind=LaneKind.OWN,
        tier=task.tier,
        weight=max(1, task.weight),
        chunk=task.chunk,
        task=task.id,
        channel=task.channel,
    )


def standing_lanes(topics: Topics) -> list[LaneInfo]:
    """The shared and retry lanes, which are always held."""
    shared = [
        LaneInfo(topics.shared_lane(number), LaneKind.SHARED, Tier.LOW, MILLI, STANDING_CHUNK)
        for number in range(topics.shared_lanes)
    ]
    retry = [LaneInfo(name, LaneKind.RETRY, tier, MILLI, STANDING_CHUNK) for name, tier, _ in topics.retry_lanes()]
    return shared + retry


def working_set(tasks: Sequence[LiveTask], limit: int) -> Sequence[LiveTask]:
    """At most `limit` tasks: those with something pending first, tiers in turn, in each the ones furthest behind."""
    if len(tasks) <= limit:
        return tasks
    queues = [sorted((task for task in tasks if task.tier == tier), key=_behind, reverse=True) for tier in TIERS]
    chosen: list[LiveTask] = []
    while len(chosen) < limit:
        for queue in queues:
            if queue and len(chosen) < limit:
                chosen.append(queue.pop())
        queues = [queue for queue in queues if queue]
    return chosen


def _behind(task: LiveTask) -> tuple[bool, float]:
    """Sorts those with something pending first, then by the targets done for each share of weight."""
    total = task.total if task.sealed else max(task.published, task.finals)
    return (total <= task.finals, task.finals / max(1, task.weight))
