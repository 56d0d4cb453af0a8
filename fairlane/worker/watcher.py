"""Tells the engine which lanes to hold: at once by the registry's feed, and by a reconcile that does not need it.

Ten thousand tasks may be live: tasks that the feed names are read at once, all others page by page. Neither Redis nor
the engine (which shares the interpreter with this thread) then waits for more than a few milliseconds.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from backends.redis.registry.registry import Feed, Registry
from backends.redis.registry.task_rows import LIVE_TASK
from backends.redis.registry.tasks import LIVE
from dispatcher.clock import Clock
from dispatcher.engine.events import LanesChanged
from dispatcher.model.errors import FairlaneError, Unreachable
from dispatcher.model.flow_pause import FlowPause
from dispatcher.model.tier import MILLI, Tier
from dispatcher.model.view import FeedEntry
from dispatcher.ports import LaneInfo, WaitingLane
from dispatcher.wire.lease import LaneKind
from dispatcher.wire.topics import Topics, side_of_lane
from fairlane.worker.live_lanes import LiveLanes, LiveLaneSettings, Peer

_log = logging.getLogger(__name__)
STANDING_CHUNK = 100
"""Assumed number of targets per envelope in a lane that holds many tasks."""


@dataclass(frozen=True, kw_only=True)
class WatchSettings:
    """Settings of the watcher."""

    lanes: LiveLaneSettings
    look_s: float = 1.0
    """Interval of checks that do not need the feed, and of the turns of the lanes."""
    full_s: float = 15.0
    """All tasks are read once in this time."""
    page_tasks: int = 200
    """Tasks read per page."""
    page_pause_s: float = 0.005
    """Pause between pages when all tasks are read at once, because the feed has missed something."""
    more_s: float = 0.1
    gather_s: float = 0.02
    """Minimum time between two rounds, so that changes close together are handled in one."""


@dataclass
class LaneWatcher:
    """Watches the registry, in one thread."""

    registry: Registry
    feed: Feed
    topics: Topics
    changed: Callable[[LanesChanged], None]
    """Called from this thread, whenever something changed, with all lanes to hold, those that wait for their turn, and
    all edited messages; it must be cheap."""
    peers: Callable[[], Sequence[Peer]]
    """Returns the live workers, this one among them; none while that is not known, and then no lane of a task is held.
    """
    clock: Clock
    settings: WatchSettings
    paused: Callable[[Mapping[str, FlowPause], int], None] = lambda _entries, _now_ms: None
    """Called with the entries of flows and Redis' time, at least every `look_s`."""

    def __post_init__(self) -> None:
        self._lanes = LiveLanes(self.settings.lanes)
        self._standing = [lane for lane in standing_lanes(self.topics) if lane.tier in self.settings.lanes.tiers]
        self._sides: list[LaneInfo] = []
        self._published_sides = self._sides
        self._reading = _Reading()
        self._published: LanesChanged | None = None
        self._position: bytes | None = None
        self._version: int | None = None
        """The registry's version, as far as its changes are known. None: some were missed."""
        self._ahead_ms = 0
        """Redis' time minus our monotonic clock's."""
        self._read_at_s = self._round_at_s = float("-inf")
        self._refused = False
        """Whether the last round failed for a reason other than a lost server; that is logged."""

    def run(self, stop: threading.Event) -> None:
        """Run until `stop` is set.

        If Redis is gone, or the view has a foreign key, the engine keeps its lanes: ending the thread would end every
        worker.
        """
        while not stop.is_set():
            try:
                self._pause(stop)
                self._position, changes = self.feed.watch(self._position, self._wait_ms())
                self._round_at_s = self.clock.monotonic_s()
                self.round(changes)
                self._refused = False
            except FairlaneError as error:
                self._note(error)
                self._position = self._version = None
                stop.wait(self.settings.look_s / 2)

    def _note(self, error: FairlaneError) -> None:
        """Log once what only an operator can fix."""
        refused = not isinstance(error, Unreachable)
        level = logging.ERROR if refused and not self._refused else logging.DEBUG
        _log.log(level, "The registry cannot be read, so lanes of new tasks are not found yet: %s", error)
        self._refused = refused

    def round(self, changes: Sequence[FeedEntry]) -> None:
        """Apply the changes, read the view again if that is due, and tell the engine which lanes there are. Raises
        Unreachable."""
        if self._version is not None:
            self._version += len(changes)
        due = self.clock.monotonic_s() >= self._read_at_s
        if due or any(change.kind != "task" for change in changes):
            self._read_state(caught_up=not changes)
        self._read(dict.fromkeys(change.task for change in changes if change.kind == "task"), is_reported=True)
        if self.clock.monotonic_s() >= self._reading.at_s:
            self._read_page()
        rotate = due and self._lanes.rotation.crowded
        if rotate:
            self._read(self._lanes.busy(), is_reported=False)
        self._lanes.wake(self._now_ms())
        if rotate or self._lanes.changed or self._sides != self._published_sides:
            self._tell(rotate=rotate)

    # ------------------------------------------------------------- reading
    def _read_state(self, *, caught_up: bool) -> None:
        now_s = self.clock.monotonic_s()
        state = self.registry.service.read_state()
        self._ahead_ms = state.now_ms - round(now_s * 1000)
        self._read_at_s = now_s + self.settings.look_s
        if self._version is None or (caught_up and state.version != self._version):
            self._version = state.version
            self._reading.hurry()
        self.paused(state.flows, state.now_ms)
        flows = frozenset(flow for flow, entry in state.flows.items() if entry.is_open(state.now_ms))
        self._lanes.pause(state.paused, state.now_ms, flows)
        self._lanes.set_peers(self.peers(), state.now_ms)
        sides = self._side_lanes(state.sides)
        if sides != self._sides:
            self._sides = sides

    def _read(self, tasks: Iterable[str], *, is_reported: bool) -> None:
        named = list(tasks)
        tasks_there = self.registry.tasks.named(named, LIVE_TASK, ended=False)
        self._lanes.put(tasks_there, self._now_ms(), is_reported=is_reported)
        self._lanes.drop(set(named) - {task.id for task in tasks_there})

    def _read_page(self) -> None:
        """Read the next page of all tasks; at the end, read by id the known tasks that were on no page."""
        settings, reading = self.settings, self._reading
        page = self.registry.tasks.page(LIVE, LIVE_TASK, settings.page_tasks, reading.cursor)
        if reading.cursor is None:
            reading.missed = self._lanes.ids()
        self._lanes.put(page.tasks, page.now_ms, is_reported=False)
        reading.took((task.id for task in page.tasks), page.cursor)
        if page.cursor is None:
            self._read(reading.missed, is_reported=False)
        pages = max(1, len(self._lanes) / settings.page_tasks)
        reading.next_at(self.clock.monotonic_s(), settings.page_pause_s, settings.full_s / pages)

    # ------------------------------------------------------------- reporting
    def _tell(self, *, rotate: bool) -> None:
        lanes, published = self._lanes, self._published
        lanes.choose(self.clock.monotonic_s(), rotate=rotate)
        self._published_sides = self._sides
        held = [*self._standing, *self._sides, *lanes.attached()]
        waiting: Sequence[WaitingLane] = lanes.waiting() if rotate else ()
        if not rotate and lanes.rotation.crowded and published is not None:
            waiting = published.waiting
        now = LanesChanged(held, dict(lanes.overrides), waiting)
        if published is None or not _same(now, published):
            self._published = now
            self.changed(now)

    def _side_lanes(self, sides: Iterable[str]) -> list[LaneInfo]:
        if Tier.LOW not in self.settings.lanes.tiers:
            return []
        named = ((side, side_of_lane(side)) for side in sorted(sides))
        return [
            LaneInfo(
                name=side,
                kind=LaneKind.SIDE,
                tier=Tier.LOW,
                weight=MILLI,
                chunk=STANDING_CHUNK,
                app=names[0],
                channel=names[1],
            )
            for side, names in named
            if names and not self._lanes.stops(names[1], names[0]) and self._lanes.holds(side, Tier.LOW, names[1])
        ]

    # ------------------------------------------------------------- times
    def _now_ms(self) -> int:
        """Return Redis' time."""
        return round(self.clock.monotonic_s() * 1000) + self._ahead_ms

    def _pause(self, stop: threading.Event) -> None:
        wait_s = self._round_at_s + self.settings.gather_s - self.clock.monotonic_s()
        if wait_s > 0:
            stop.wait(wait_s)

    def _wait_ms(self) -> int:
        """Return the time until the next check or page, or until a task's start if that is sooner."""
        now_s = self.clock.monotonic_s()
        times_s = [self._read_at_s - now_s, self._reading.at_s - now_s]
        if self._lanes.rotation.more:
            times_s.append(self.settings.more_s)
        if self._lanes.next_ms is not None:
            times_s.append((self._lanes.next_ms - self._now_ms()) / 1000)
        return max(1, round(max(0.0, min(times_s)) * 1000))


class _Reading:
    """Reads all tasks, page by page, again and again. `missed`: the tasks known before that were on no page."""

    def __init__(self) -> None:
        self.cursor: str | None = None
        self.missed: set[str] = set()
        self.at_s = float("-inf")
        self._hurried = True

    def hurry(self) -> None:
        """Start again from the first page, without pauses."""
        self.cursor = None
        self.at_s = float("-inf")
        self._hurried = True

    def took(self, tasks: Iterable[str], cursor: str | None) -> None:
        self.missed.difference_update(tasks)
        self.cursor = cursor

    def next_at(self, now_s: float, pause_s: float, steady_s: float) -> None:
        if self.cursor is None:
            self._hurried = False
        self.at_s = now_s + (pause_s if self._hurried else steady_s)


def standing_lanes(topics: Topics) -> list[LaneInfo]:
    """Return the shared and retry lanes, which are always held."""
    shared = [
        LaneInfo(
            name=topics.shared_lane(number), kind=LaneKind.SHARED, tier=Tier.LOW, weight=MILLI, chunk=STANDING_CHUNK
        )
        for number in range(topics.shared_lanes)
    ]
    retry = [
        LaneInfo(
            name=lane.topic,
            kind=LaneKind.RETRY,
            tier=lane.tier,
            weight=MILLI,
            chunk=STANDING_CHUNK,
            delay_s=lane.delay_s,
        )
        for lane in topics.retry_lanes()
    ]
    return shared + retry


def _same(changed: LanesChanged, other: LanesChanged) -> bool:
    """Return whether nothing has changed. A lane described by a new object is to be unparked."""
    return (
        len(changed.lanes) == len(other.lanes)
        and all(a is b for a, b in zip(changed.lanes, other.lanes, strict=True))
        and changed.overrides == other.overrides
        and changed.waiting == other.waiting
    )
