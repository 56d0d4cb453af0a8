"""Lanes of ended tasks and empty side lanes go, at a pace, whatever topics misbehave; others stay."""

from collections.abc import Sequence
from itertools import count, pairwise

import pytest

from backends.redis.registry.registry import Registry
from backends.redis.registry.service import SideLaneTable
from consumers.upkeep.lane_cleanup import CleanupSettings, LaneCleaner, SideLaneCleaner
from dispatcher.model.errors import FairlaneError, Refused, Unreachable
from dispatcher.retry import Backoff
from dispatcher.wire.control import ControlRecord
from tests.contract.registry_records import position, task_record
from tests.records import finished
from tests.unit.dispatch.consumers.fakes import MemoryTopics
from tests.unit.views import view_of
from tests.virtual_clock import VirtualClock


def lane(task: str) -> str:
    return f"persistent://t/tasks-00/{task}"


class Known:
    """The view: tasks of which a test says that they live or have ended."""

    def __init__(self, clock: VirtualClock) -> None:
        self.registry = Registry(view_of(clock))
        self.complete = True
        self.all_read = True
        self._clock = clock
        self._records = count()

    def live(self, task: str, topic: str = "") -> None:
        """topic: the lane that its record names, if not its own."""
        self._apply(task_record(task, lane=topic or lane(task)))

    def end(self, task: str, after_s: float = 0) -> None:
        """after_s: how far the end is dated in the future."""
        self._apply(finished(task, at_ms=self._clock.wall_ms() + round(after_s * 1000)))

    def _apply(self, record: ControlRecord) -> None:
        self.registry.control.apply(position(next(self._records)), record)


USUAL = CleanupSettings(sweep_s=60, grace_s=100, retry=Backoff(1.0, 4.0))


class Cleanup:
    def __init__(self, *tasks: str, topics: MemoryTopics | None = None, settings: CleanupSettings = USUAL) -> None:
        self.clock = VirtualClock()
        self.topics, self.known = topics or MemoryTopics(map(lane, tasks)), Known(self.clock)
        self.cleaner = LaneCleaner(
            self.topics,
            self.known.registry.tasks,
            lambda: self.known.complete,
            ["t/tasks-00"],
            self.clock,
            settings,
            lambda: self.known.all_read,
        )

    def rounds(self, count: int) -> None:
        for _ in range(count):
            self.cleaner.round()
            self.clock.advance(1)


def test_the_lane_of_an_ended_task_goes_once_nobody_is_attached() -> None:
    cleanup = Cleanup("a", "b")
    cleanup.known.live("a")
    cleanup.known.live("b")
    cleanup.rounds(1)
    cleanup.known.end("a")
    cleanup.topics.attached.add(lane("a"))
    cleanup.rounds(3)
    assert cleanup.topics.lanes == [lane("a"), lane("b")]
    cleanup.topics.attached.clear()
    cleanup.rounds(5)
    assert cleanup.topics.lanes == [lane("b")]


def test_an_end_that_is_dated_in_the_future_hides_no_end_after_it() -> None:
    """By a worker whose clock was wrong."""
    cleanup = Cleanup("a", "b")
    cleanup.known.live("a")
    cleanup.known.live("b")
    cleanup.rounds(1)
    cleanup.known.end("a", after_s=365 * 86_400)
    cleanup.rounds(2)
    cleanup.known.end("b")
    cleanup.rounds(2)
    assert cleanup.topics.lanes == []


def test_a_record_that_names_a_topic_of_another_tenant_does_not_have_it_deleted() -> None:
    cleanup, foreign = Cleanup("a"), "persistent://other/tasks-00/b"
    cleanup.topics.backlogs[foreign] = 0
    cleanup.rounds(1)
    cleanup.known.live("b", foreign)
    cleanup.known.live("a")
    for task in ("a", "b"):
        cleanup.known.end(task)
    cleanup.rounds(2)
    assert cleanup.topics.lanes == [foreign]


def test_an_attached_lane_is_not_hammered() -> None:
    cleanup = Cleanup("a")
    cleanup.known.live("a")
    cleanup.known.end("a", after_s=-3_600)
    cleanup.topics.attached.add(lane("a"))
    cleanup.rounds(20)
    assert cleanup.topics.tries <= 8


def test_the_sweep_finds_what_an_earlier_housekeeper_left() -> None:
    cleanup = Cleanup("ended", "live")
    for task in ("ended", "live"):
        cleanup.known.live(task)
    cleanup.known.end("ended", after_s=-3_600)
    cleanup.rounds(1)
    assert cleanup.topics.lanes == [lane("live")]


def test_a_topic_of_an_unknown_task_goes_only_after_the_grace() -> None:
    cleanup = Cleanup("stray")
    cleanup.rounds(100)
    assert cleanup.topics.lanes == [lane("stray")]
    cleanup.rounds(100)
    assert cleanup.topics.lanes == []


def test_a_task_that_becomes_known_in_the_grace_keeps_its_lane() -> None:
    cleanup = Cleanup("late")
    cleanup.rounds(90)
    cleanup.known.live("late")
    cleanup.rounds(400)
    assert cleanup.topics.lanes == [lane("late")]


def test_while_control_records_are_passed_over_no_topic_of_an_unknown_task_goes() -> None:
    """One of them may be its task's, and a newer version will read it."""
    cleanup = Cleanup("a", "b")
    cleanup.known.live("b")
    cleanup.known.end("b", after_s=-3_600)
    cleanup.known.all_read = False
    cleanup.rounds(400)
    assert cleanup.topics.lanes == [lane("a")]
    cleanup.known.all_read = True
    cleanup.rounds(100)
    assert cleanup.topics.lanes == []


def test_nothing_is_swept_while_the_view_is_being_rebuilt() -> None:
    cleanup = Cleanup("stray")
    cleanup.known.complete = False
    cleanup.rounds(500)
    assert cleanup.topics.lanes == [lane("stray")]


def test_many_lanes_are_cleared_away_at_a_pace_and_within_a_minute() -> None:
    names = [f"t{number}" for number in range(3_000)]
    cleanup = Cleanup(*names)
    cleanup.rounds(1)
    for name in names:
        cleanup.known.live(name)
        cleanup.known.end(name)
    left = [len(cleanup.topics.lanes)]
    for _ in range(60):
        cleanup.rounds(1)
        left.append(len(cleanup.topics.lanes))
    assert max(before - after for before, after in pairwise(left)) <= 200
    assert left[1] < 3_000
    assert left[-1] == 0


class Broken(MemoryTopics):
    """Lanes, the first of which can never be deleted."""

    def __init__(self, lanes: Sequence[str], error: FairlaneError) -> None:
        super().__init__(lanes)
        self.broken = lanes[0]
        self._error = error

    def delete_topic(self, topic: str) -> bool:
        if topic == self.broken:
            self.tries += 1
            raise self._error
        self.backlogs.pop(topic, None)
        return True


@pytest.mark.parametrize("error", [Unreachable("500: the topic is fenced"), Refused("403: not yours")])
def test_a_lane_that_cannot_be_deleted_keeps_no_other_from_it(error: FairlaneError) -> None:
    names = [f"task-{number}" for number in range(300)]
    topics = Broken([lane(name) for name in names], error)
    cleanup = Cleanup(topics=topics, settings=CleanupSettings(sweep_s=1e9, slowest=40))
    for name in names:
        cleanup.known.live(name)
        cleanup.known.end(name)
    reported = 0
    for _ in range(30):
        try:
            cleanup.cleaner.round()
        except FairlaneError:
            reported += 1
        cleanup.clock.advance(1)
    assert topics.lanes == [topics.broken]
    assert reported == topics.tries
    assert 3 <= reported <= 10, "it is tried again, less and less often"


SHARED = "persistent://t/shared/low-0"


def side(app: str) -> str:
    return f"persistent://t/shared/side.{app}~null"


class SideCleanup:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.topics, self.sides = MemoryTopics([SHARED]), SideLaneTable(view_of(self.clock))
        self.cleaner = SideLaneCleaner(self.topics, self.sides, lambda: True, "t/shared", self.clock)


def test_a_side_lane_goes_once_it_stood_empty_and_nobody_is_attached() -> None:
    cleanup = SideCleanup()
    topics, sides = cleanup.topics, cleanup.sides
    topics.backlogs |= {side("shop"): 5, side("bank"): 0}
    for app in ("shop", "bank", "never-created"):
        sides.add(side(app))
    topics.attached = {side("shop"), side("bank")}
    for _ in range(3):
        cleanup.cleaner.round()
        cleanup.clock.advance(10)
    assert sides.topics() == {side("shop")}
    assert side("bank") in topics.backlogs
    topics.attached = {side("shop")}
    cleanup.cleaner.round()
    assert topics.backlogs == {SHARED: 0, side("shop"): 5}


def test_a_side_lane_that_an_empty_redis_forgot_is_known_again() -> None:
    cleanup = SideCleanup()
    cleanup.topics.backlogs[side("shop")] = 5
    cleanup.cleaner.round()
    assert cleanup.sides.topics() == {side("shop")}


class Busy(MemoryTopics):
    """Side lanes. While one is deleted, something is moved to all others."""

    lost = 0

    def delete_topic(self, topic: str) -> bool:
        self.lost += self.backlogs.pop(topic)
        self.backlogs = {other: backlog + 1 for other, backlog in self.backlogs.items()}
        return True


def test_a_side_lane_to_which_something_is_moved_while_others_are_deleted_is_kept_and_known() -> None:
    clock, topics = VirtualClock(), Busy(side(f"app{number}") for number in range(5))
    known = SideLaneTable(view_of(clock))
    SideLaneCleaner(topics, known, lambda: True, "t/shared", clock).round()
    assert not topics.lost
    assert len(topics.backlogs) == 4
    assert known.topics() == set(topics.backlogs)
