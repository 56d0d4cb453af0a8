"""The engine is told of the lanes it should hold: those of tasks that may be sent now, and the standing ones."""

import queue
from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.redis.registry.registry import Feed
from backends.redis.registry.task_rows import LiveTask, RowShape
from backends.system_clock import SystemClock
from dispatcher.engine.events import LanesChanged
from dispatcher.model.errors import FairlaneError, Unreachable
from dispatcher.model.flow_pause import FlowPause, PauseKind
from dispatcher.model.tier import TIERS, Tier
from dispatcher.model.view import FeedEntry
from dispatcher.scheduling.rotation import RotationSettings
from dispatcher.wire.envelope import encode_message
from dispatcher.wire.lease import LaneKind
from dispatcher.wire.topics import Topics
from fairlane.worker import watcher
from fairlane.worker.live_lanes import LiveLanes, LiveLaneSettings, Peer
from fairlane.worker.watcher import LaneWatcher, WatchSettings, standing_lanes
from tests.actors import running
from tests.records import edit_text
from tests.unit.dispatch.consumers.fakes import eventually
from tests.unit.tasks import live_task as live
from tests.unit.views import FixedRegistry, FixedService, FixedTasks
from tests.virtual_clock import VirtualClock

TOPICS = Topics(tenant="t", namespaces=1, shared_lanes=2, outcome_partitions=1)


class Registry(FixedRegistry):
    def __init__(self, clock: VirtualClock, *tasks: LiveTask) -> None:
        super().__init__(FixedTasks(*tasks), FixedService())
        self._clock = clock
        self.tick()

    def now_ms(self) -> int:
        """Not the worker's clock."""
        return self._clock.wall_ms() + 300_000

    def tick(self) -> None:
        self.tasks.now_ms = self.service.time_ms = self.now_ms()

    def set(self, *tasks: LiveTask) -> list[FeedEntry]:
        """Changes tasks. Returns what the feed says of it."""
        self.tasks.known.update((task.id, task) for task in tasks)
        return self.announced([task.id for task in tasks])

    def end(self, *tasks: str) -> list[FeedEntry]:
        for task in tasks:
            self.tasks.known.pop(task, None)
        return self.announced(list(tasks))

    def announced(self, tasks: list[str]) -> list[FeedEntry]:
        self.service.number += len(tasks)
        return [FeedEntry("task", task) for task in tasks]


class NoFeed(Feed):
    def __init__(self) -> None: ...

    def watch(self, after: bytes | None, block_ms: int) -> tuple[bytes, list[FeedEntry]]:
        return b"", []


class Watch:
    """One worker's watcher, its rounds made by hand."""

    def __init__(
        self, *tasks: LiveTask, max_lanes: int = 100, tiers: tuple[Tier, ...] = TIERS, page: int = 200
    ) -> None:
        self.clock = VirtualClock()
        self.registry = Registry(self.clock, *tasks)
        self.published: list[LanesChanged] = []
        self.peers = [Peer("me")]
        lanes = LiveLaneSettings(me="me", tiers=tiers, rotation=RotationSettings(max_lanes=max_lanes, hold_s=0.0))
        self.watcher = LaneWatcher(
            self.registry,
            NoFeed(),
            TOPICS,
            self.published.append,
            lambda: self.peers,
            self.clock,
            WatchSettings(lanes=lanes, page_tasks=page),
        )
        self.rounds(2 + len(tasks) // page)

    def rounds(self, count: int = 1, after_s: float = 0.01) -> None:
        """Rounds in which the feed says nothing."""
        for _ in range(count):
            self.clock.advance(after_s)
            self.registry.tick()
            self.watcher.round([])

    def own(self) -> list[str]:
        return [lane.task for lane in self.published[-1].lanes if lane.kind == LaneKind.OWN]

    def names(self) -> list[str]:
        return [lane.name for lane in self.published[-1].lanes]


def test_standing_lanes_are_held_always() -> None:
    watch = Watch()
    assert watch.published[-1].lanes == standing_lanes(TOPICS)
    assert len(standing_lanes(TOPICS)) == 2 + 15


def test_edited_messages_are_told_of_tasks_in_every_lane() -> None:
    override = edit_text(3, {"body": "new"}).encode()
    watch = Watch(live("own"), live("small", shared=True))
    assert watch.published[-1].overrides == {}
    watch.watcher.round(
        watch.registry.set(live("own", override=override), live("small", shared=True, override=override))
    )
    message = bytes(encode_message({"body": "new"}))
    assert watch.published[-1].overrides == {"own": message, "small": message}
    watch.watcher.round(watch.registry.end("own"))
    assert watch.published[-1].overrides == {"small": message}


@pytest.mark.parametrize(
    ("fields", "held"),
    [
        ({}, True),
        ({"state": "paused"}, False),
        ({"state": "cancelled"}, False),
        ({"state": "scheduled", "start_ms": 10**15}, False),
        ({"state": "scheduled", "start_ms": 1}, True),
        ({"expires_ms": 1}, False),
        ({"hold": True, "sealed": False}, False),
        ({"hold": True, "sealed": True}, True),
        ({"shared": True}, False),
    ],
)
def test_only_lanes_that_may_be_sent_now_are_held(fields: dict[str, object], held: bool) -> None:
    watch = Watch()
    watch.watcher.round(watch.registry.set(live("x", **fields)))
    assert watch.own() == (["x"] if held else [])


def test_of_ten_thousand_tasks_a_change_reads_one() -> None:
    watch = Watch(*(live(f"x{number}") for number in range(10_000)))
    watch.rounds(after_s=1.0)
    assert len(watch.published[-1].lanes) == 17 + 100
    reads, watch.registry.tasks.named_ids = watch.registry.tasks.reads, []
    watch.watcher.round(watch.registry.set(live("new")))
    assert watch.registry.tasks.named_ids == ["new"]
    assert watch.registry.tasks.reads == reads
    assert "new" in watch.own()


def test_without_a_change_nothing_is_told_again_and_all_tasks_are_read_now_and_then() -> None:
    watch = Watch(*(live(f"x{number}") for number in range(10)), page=5)
    reported, reads = len(watch.published), watch.registry.tasks.reads
    watch.rounds(60, after_s=0.5)
    assert len(watch.published) == reported
    assert 4 <= watch.registry.tasks.reads - reads <= 6


def test_a_task_that_changed_is_told_of_by_another_object() -> None:
    """Which unparks its lane, and no other."""
    watch = Watch(live("x"), live("y"))
    before = {lane.task: lane for lane in watch.published[-1].lanes}
    watch.watcher.round(watch.registry.set(live("x")))
    after = {lane.task: lane for lane in watch.published[-1].lanes}
    assert after["x"] is not before["x"]
    assert after["y"] is before["y"]


def test_a_change_the_feed_missed_shows_in_the_version() -> None:
    watch = Watch()
    watch.registry.set(live("x"))
    watch.rounds(2, after_s=1.0)
    assert watch.own() == ["x"]
    watch.registry.end("x")
    watch.rounds(2, after_s=1.0)
    assert watch.own() == []


def test_a_change_that_did_not_count_shows_when_all_tasks_were_read() -> None:
    watch = Watch(live("x"))
    watch.registry.tasks.known = {"y": live("y")}
    watch.rounds(20, after_s=1.0)
    assert watch.own() == ["y"]


def test_a_scheduled_task_is_held_from_its_start_by_the_registrys_time() -> None:
    watch = Watch()
    watch.watcher.round(watch.registry.set(live("x", state="scheduled", start_ms=watch.registry.now_ms() + 5_000)))
    assert watch.own() == []
    watch.rounds(1, after_s=4.9)
    assert watch.own() == []
    watch.rounds(1, after_s=0.2)
    assert watch.own() == ["x"]


def test_where_lanes_take_turns_those_that_wait_are_told_with_what_waits_in_them() -> None:
    watch = Watch(*(live(f"x{number}") for number in range(10)), max_lanes=4)
    watch.rounds(2, after_s=1.0)
    waiting = {lane.name: lane.targets for lane in watch.published[-1].waiting}
    assert waiting == {f"lane/x{number}": 10 for number in range(10) if f"x{number}" not in watch.own()}
    assert len(waiting) == 6


def test_lanes_take_turns_by_what_was_sent_of_them() -> None:
    watch = Watch(*(live(f"x{number}", total=10_000, published=10_000) for number in range(8)), max_lanes=4)
    sent = dict.fromkeys(watch.registry.tasks.known, 0)
    for _ in range(40):
        for name in watch.own():
            sent[name] += 200
            watch.registry.tasks.known[name] = watch.registry.tasks.known[name]._replace(finals=sent[name])
        watch.rounds(1, after_s=1.0)
    assert max(sent.values()) - min(sent.values()) <= 1_000


def test_a_new_task_is_attached_before_anything_is_known_to_be_published() -> None:
    watch = Watch(*(live(f"x{number}") for number in range(200)))
    watch.watcher.round(watch.registry.set(live("new", sealed=False, published=0, total=0)))
    assert "new" in watch.own()


def test_a_new_lane_to_which_nothing_came_takes_no_part_of_the_prefetch_budget_any_more() -> None:
    """A task of unknown size is expected to be large at first."""
    watch = Watch()
    coming = {"sealed": False, "published": 0, "total": 0}
    watch.watcher.round(watch.registry.set(live("empty", **coming), live("full", **coming)))

    def nearly_empty() -> dict[str, bool]:
        return {lane.task: lane.nearly_empty for lane in watch.published[-1].lanes if lane.kind == LaneKind.OWN}

    assert nearly_empty() == {"empty": False, "full": False}
    watch.watcher.round(watch.registry.set(live("full", sealed=False, published=1_000, total=0)))
    watch.rounds(6, after_s=1.1)
    assert nearly_empty() == {"empty": True, "full": False}
    watch.watcher.round(watch.registry.set(live("empty", sealed=False, published=1_000, total=0)))
    assert nearly_empty() == {"empty": False, "full": False}


def test_a_worker_of_some_tiers_holds_no_lanes_of_others() -> None:
    watch = Watch(live("x"), live("y", tier="low"), tiers=(Tier.LOW,))
    assert watch.own() == ["y"]
    assert {lane.tier for lane in watch.published[-1].lanes} == {"low"}


def test_without_knowing_of_the_workers_no_lane_of_a_task_is_held() -> None:
    watch = Watch(live("x"))
    watch.peers = []
    watch.rounds(1, after_s=1.0)
    assert watch.own() == []


def test_lanes_of_a_paused_channel_are_let_go_of() -> None:
    watch = Watch(live("x", channel="sms"), live("y"))
    watch.registry.service.sides = frozenset({TOPICS.side_lane("shop", "sms"), TOPICS.side_lane("shop", "null")})
    watch.rounds(1, after_s=1.0)
    assert set(watch.registry.service.sides) < set(watch.names())
    watch.registry.service.paused = frozenset({"sms"})
    watch.watcher.round([FeedEntry("globals")])
    assert watch.own() == ["y"]
    assert TOPICS.side_lane("shop", "sms") not in watch.names()
    assert TOPICS.side_lane("shop", "null") in watch.names()


def test_lanes_of_an_app_that_is_paused_on_a_channel_are_let_go_of_until_the_pause_ends() -> None:
    watch = Watch(live("x", app="bank"), live("y"), live("z", app="bank", channel="sms"))
    sides = TOPICS.side_lane("bank", "null"), TOPICS.side_lane("shop", "null")
    watch.registry.service.sides = frozenset(sides)
    now_ms = watch.registry.service.now_ms()
    watch.registry.service.flows = {"null/bank": FlowPause(kind=PauseKind.DOWN, since_ms=0, until_ms=now_ms + 5_000)}
    watch.watcher.round([FeedEntry("globals")])
    assert watch.own() == ["y", "z"]
    assert [side in watch.names() for side in sides] == [False, True]
    watch.rounds(6, after_s=1.0)
    assert sorted(watch.own()) == ["x", "y", "z"]
    assert [side in watch.names() for side in sides] == [True, True]


STEPS = st.lists(
    st.tuples(st.integers(0, 7), st.sampled_from(["set", "pause", "end", "missed", "share"]), st.integers(0, 30)),
    max_size=30,
)


def step(watch: Watch, number: int, what: str, finals: int) -> None:
    task, name = live(f"x{number}", finals=finals, total=30, published=30), f"x{number}"
    match what:
        case "set":
            changes = watch.registry.set(task)
        case "pause":
            changes = watch.registry.set(task._replace(state="paused"))
        case "share":
            changes = watch.registry.set(task._replace(shared=True))
        case "end":
            changes = watch.registry.end(name)
        case _:
            watch.registry.set(task)
            changes = []
    watch.clock.advance(0.5)
    watch.registry.tick()
    watch.watcher.round(changes)


class AlwaysChanged(LiveLanes):
    @property
    def changed(self) -> bool:
        return True


@settings(deadline=None)
@given(STEPS, st.sampled_from([2, 100]))
def test_nothing_is_missed_by_choosing_only_where_something_changed(
    steps: list[tuple[int, str, int]], max_lanes: int
) -> None:
    watch = Watch(page=3, max_lanes=max_lanes)
    with patch.object(watcher, "LiveLanes", AlwaysChanged):
        other = Watch(page=3, max_lanes=max_lanes)
    for one in steps:
        step(watch, *one)
        step(other, *one)
        assert watch.published[-1] == other.published[-1]


@settings(deadline=None)
@given(STEPS)
def test_what_is_known_from_changes_is_what_is_known_from_reading_all(steps: list[tuple[int, str, int]]) -> None:
    watch = Watch(page=3)
    for one in steps:
        step(watch, *one)
    watch.rounds(6, after_s=1.1)
    afresh = Watch(*watch.registry.tasks.known.values(), page=3)
    assert sorted(watch.own()) == sorted(afresh.own())
    assert {lane.task: lane for lane in watch.published[-1].lanes} == {
        lane.task: lane for lane in afresh.published[-1].lanes
    }


# ------------------------------------------------------------- the watch of the registry while Redis comes and goes
class Tasks(FixedTasks):
    """breaks: how often tasks cannot be read by id, for `error`."""

    breaks = 0
    error: FairlaneError = Unreachable("Redis is gone.")

    def named(self, tasks: Sequence[str], shape: RowShape[Any], *, ended: bool | None = None) -> list[Any]:
        if self.breaks:
            self.breaks -= 1
            raise self.error
        return super().named(tasks, shape, ended=ended)


class ToldFeed(Feed):
    """Says what a test puts into it."""

    def __init__(self, service: FixedService) -> None:
        self.changes: queue.Queue[list[FeedEntry]] = queue.Queue()
        self._service = service

    def watch(self, after: bytes | None, block_ms: int) -> tuple[bytes, list[FeedEntry]]:
        try:
            changes = self.changes.get(timeout=block_ms / 1_000)
        except queue.Empty:
            return b"", []
        self._service.number += len(changes)
        return b"", changes


@pytest.mark.parametrize("error", [Unreachable("Redis is gone."), FairlaneError("A key has another type.")])
def test_a_change_that_could_not_be_read_when_it_was_told_is_not_lost(error: FairlaneError) -> None:
    """All tasks are read only every 15 s; this one is looked at long before."""
    tasks, service, reported = Tasks(), FixedService(), list[LanesChanged]()
    registry, feed = FixedRegistry(tasks, service), ToldFeed(service)
    settings = WatchSettings(lanes=LiveLaneSettings(me="me"), look_s=0.02)
    topics = Topics(tenant="t", namespaces=1)
    watcher = LaneWatcher(registry, feed, topics, reported.append, lambda: [Peer("me")], SystemClock(), settings)
    with running(watcher.run):
        eventually(lambda: bool(reported))
        tasks.known["x"] = live("x")
        tasks.error, tasks.breaks = error, 1
        feed.changes.put([FeedEntry("task", "x")])
        eventually(lambda: "lane/x" in {lane.name for lane in reported[-1].lanes})
    assert not tasks.breaks
