"""The engine is told of the lanes it should hold: those of tasks that may be sent now, and the standing ones."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from backends.task_rows import LiveTask
from dispatcher.clock import VirtualClock
from dispatcher.control import encode_override
from dispatcher.envelope import encode_message
from dispatcher.events import LanesChanged
from dispatcher.lease import LaneKind
from dispatcher.ports import LaneInfo
from dispatcher.tier import Tier
from dispatcher.topics import Topics
from dispatcher.view import Change
from fairlane.worker.watcher import LaneWatcher, WatchSettings, standing_lanes, working_set

TOPICS = Topics(tenant="t", namespaces=1, shared_lanes=2, outcome_partitions=1)


def live(task: str, **fields: object) -> LiveTask:
    plain = LiveTask(
        id=task, state="running", app="a", tier="high", weight=1000, cap=0, channel="null", lane=f"lane/{task}",
        shared=False, chunk=100, hold=False, start_ms=0, expires_ms=0, sealed=True, published=10, total=10, finals=0,
        claims=0, cancelled=False, cancelled_targets=0,
    )  # fmt: skip
    return plain._replace(**fields)


@dataclass
class Registry:
    tasks: list[LiveTask] = field(default_factory=list)
    number: int = 1
    reads: int = 0

    def version(self) -> int:
        return self.number

    def live(self) -> list[LiveTask]:
        self.reads += 1
        return list(self.tasks)


class NoFeed:
    def watch(self, after: bytes | None, block_ms: int) -> tuple[bytes, list[Change]]:
        return b"", []


@dataclass
class Watch:
    registry: Registry = field(default_factory=Registry)
    clock: VirtualClock = field(default_factory=VirtualClock)
    told: list[list[LaneInfo]] = field(default_factory=list)
    overrides: Mapping[str, bytes] = field(default_factory=dict)

    settings: WatchSettings = field(default_factory=lambda: WatchSettings(max_lanes=3))

    def __post_init__(self) -> None:
        self.watcher = LaneWatcher(self.registry, NoFeed(), TOPICS, self.tell, self.clock, self.settings)

    def tell(self, changed: LanesChanged) -> None:
        self.told.append(list(changed.lanes))
        self.overrides = changed.overrides

    def own(self) -> list[str]:
        return [lane.task for lane in self.told[-1] if lane.kind == LaneKind.OWN]


def test_standing_lanes_are_held_always() -> None:
    watch = Watch()
    watch.watcher.look(changes=False)
    assert watch.told == [standing_lanes(TOPICS)]
    assert len(standing_lanes(TOPICS)) == 2 + 15


def test_edited_messages_are_told_of_tasks_in_every_lane() -> None:
    override = encode_override(3, {"body": "new"}).encode()
    watch = Watch(Registry([live("own"), live("small", shared=True)]))
    watch.watcher.look(changes=False)
    assert watch.overrides == {}
    watch.registry.tasks = [live("own", override=override), live("small", shared=True, override=override)]
    watch.registry.number += 1
    watch.watcher.look(changes=False)
    message = bytes(encode_message({"body": "new"}))
    assert watch.overrides == {"own": message, "small": message}


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
    watch.registry.tasks = [live("x", **fields)]
    watch.watcher.look(changes=True)
    assert watch.own() == (["x"] if held else [])


def test_without_a_change_nothing_is_read_or_told_again() -> None:
    watch = Watch()
    for _ in range(5):
        watch.watcher.look(changes=False)
    assert watch.registry.reads == 1
    assert len(watch.told) == 1


def test_a_change_the_feed_missed_shows_in_the_version() -> None:
    watch = Watch()
    watch.watcher.look(changes=False)
    watch.registry.tasks = [live("x")]
    watch.registry.number += 1
    watch.watcher.look(changes=False)
    assert watch.own() == ["x"]


def test_a_scheduled_task_is_held_from_its_start_without_any_change() -> None:
    watch = Watch()
    watch.registry.tasks = [live("x", state="scheduled", start_ms=watch.clock.wall_ms() + 5_000)]
    watch.watcher.look(changes=True)
    assert watch.own() == []
    watch.clock.advance(5.1)
    watch.watcher.look(changes=False)
    assert watch.own() == ["x"]


def test_when_there_are_too_many_those_with_something_pending_come_first_and_no_tier_is_left_out() -> None:
    done = [live(f"done{n}", finals=10) for n in range(5)]
    high = [live(f"high{n}", finals=n) for n in range(5)]
    low = [live("low", tier="low", finals=9)]
    chosen = [task.id for task in working_set([*done, *high, *low], 3)]
    assert chosen == ["high0", "low", "high1"]


def test_a_worker_of_some_tiers_holds_no_lanes_of_others() -> None:
    watch = Watch(settings=WatchSettings(tiers=(Tier.LOW,)))
    watch.registry.tasks = [live("x"), live("y", tier="low")]
    watch.watcher.look(changes=True)
    assert watch.own() == ["y"]
    assert {lane.tier for lane in watch.told[-1]} == {"low"}
