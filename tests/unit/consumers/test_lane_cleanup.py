"""Lanes of ended tasks and empty side lanes go, at a pace, whatever topics misbehave; others stay."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import pytest

from consumers.upkeep.lane_cleanup import CleanupSettings, LaneCleaner
from consumers.upkeep.side_lanes import SideLaneCleaner
from dispatcher.backoff import Backoff
from dispatcher.clock import VirtualClock
from dispatcher.model.errors import FairlaneError, NotFound, Refused, Unreachable


def lane(task: str) -> str:
    return f"persistent://t/tasks-00/{task}"


class LaneTopics:
    def __init__(self, *tasks: str) -> None:
        self.lanes = [lane(task) for task in tasks]
        self.attached: set[str] = set()
        self.tries = 0

    def list_topics(self, namespace: str) -> Sequence[str]:
        return list(self.lanes)

    def delete_topic(self, topic: str) -> bool:
        self.tries += 1
        if topic in self.attached:
            return False
        if topic in self.lanes:
            self.lanes.remove(topic)
        return True


class Tombstone(NamedTuple):
    id: str
    lane: str
    shared: bool
    finished_ms: int


class Known:
    """fates: "live" or "ended" by task; others are unknown."""

    def __init__(self) -> None:
        self.ended: dict[str, int] = {}
        self.fates: dict[str, str] = {}
        self.lanes: dict[str, str] = {}
        """Lanes of tasks whose records name another lane than their own."""
        self.complete = True
        self.all_read = True

    def ended_since(self, at_ms: int) -> list[str]:
        return [task for task, ended_ms in self.ended.items() if ended_ms >= at_ms]

    def tombstones(self, tasks: Sequence[str]) -> Sequence[Tombstone]:
        return [Tombstone(task, self.lanes.get(task, lane(task)), False, self.ended[task]) for task in tasks]

    def ends(self, tasks: Sequence[str]) -> dict[str, bool]:
        return {task: self.fates[task] == "ended" for task in tasks if task in self.fates}


class Cleanup:
    def __init__(self, *tasks: str) -> None:
        self.topics, self.known, self.clock = LaneTopics(*tasks), Known(), VirtualClock()
        settings = CleanupSettings(sweep_s=60, grace_s=100, retry=Backoff(1.0, 4.0))
        complete, all_read = lambda: self.known.complete, lambda: self.known.all_read
        self.cleaner = LaneCleaner(self.topics, self.known, complete, ["t/tasks-00"], self.clock, settings, all_read)

    def rounds(self, count: int) -> None:
        for _ in range(count):
            self.cleaner.round()
            self.clock.advance(1)


def test_the_lane_of_an_ended_task_goes_once_nobody_is_attached() -> None:
    cleanup = Cleanup("a", "b")
    cleanup.known.fates = {"a": "live", "b": "live"}
    cleanup.rounds(1)
    cleanup.known.ended["a"] = cleanup.clock.wall_ms()
    cleanup.topics.attached.add(lane("a"))
    cleanup.rounds(3)
    assert cleanup.topics.lanes == [lane("a"), lane("b")]
    cleanup.topics.attached.clear()
    cleanup.rounds(5)
    assert cleanup.topics.lanes == [lane("b")]


def test_an_end_that_is_dated_in_the_future_hides_no_end_after_it() -> None:
    """By a worker whose clock was wrong."""
    cleanup = Cleanup("a", "b")
    cleanup.known.fates = {"a": "live", "b": "live"}
    cleanup.rounds(1)
    cleanup.known.ended["a"] = cleanup.clock.wall_ms() + 365 * 86_400_000
    cleanup.rounds(2)
    cleanup.known.ended["b"] = cleanup.clock.wall_ms()
    cleanup.rounds(2)
    assert cleanup.topics.lanes == []


def test_a_record_that_names_a_topic_of_another_tenant_does_not_have_it_deleted() -> None:
    cleanup, foreign = Cleanup("a"), "persistent://other/tasks-00/b"
    cleanup.topics.lanes.append(foreign)
    cleanup.rounds(1)
    cleanup.known.lanes["b"] = foreign
    cleanup.known.ended = {"a": cleanup.clock.wall_ms(), "b": cleanup.clock.wall_ms()}
    cleanup.rounds(2)
    assert cleanup.topics.lanes == [foreign]


def test_an_attached_lane_is_not_hammered() -> None:
    cleanup = Cleanup("a")
    cleanup.known.fates["a"] = "ended"
    cleanup.topics.attached.add(lane("a"))
    cleanup.rounds(20)
    assert cleanup.topics.tries <= 8


def test_the_sweep_finds_what_an_earlier_housekeeper_left() -> None:
    cleanup = Cleanup("ended", "live")
    cleanup.known.fates = {"ended": "ended", "live": "live"}
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
    cleanup.known.fates["late"] = "live"
    cleanup.rounds(400)
    assert cleanup.topics.lanes == [lane("late")]


def test_while_control_records_are_passed_over_no_topic_of_an_unknown_task_goes() -> None:
    """One of them may be its task's, and a newer version will read it."""
    cleanup = Cleanup("a", "b")
    cleanup.known.fates = {"b": "ended"}
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
    cleanup.known.ended = dict.fromkeys(names, cleanup.clock.wall_ms())
    left = [len(cleanup.topics.lanes)]
    for _ in range(60):
        cleanup.rounds(1)
        left.append(len(cleanup.topics.lanes))
    assert max(before - after for before, after in pairwise(left)) <= 200
    assert left[1] < 3_000
    assert left[-1] == 0


class Broken(LaneTopics):
    """The first lane can never be deleted."""

    def __init__(self, count: int, error: FairlaneError) -> None:
        super().__init__(*(f"task-{number}" for number in range(count)))
        self.failed = 0
        self._error, self.broken = error, self.lanes[0]

    def delete_topic(self, topic: str) -> bool:
        if topic != self.broken:
            return super().delete_topic(topic)
        self.failed += 1
        raise self._error


@pytest.mark.parametrize("error", [Unreachable("500: the topic is fenced"), Refused("403: not yours")])
def test_a_lane_that_cannot_be_deleted_keeps_no_other_from_it(error: FairlaneError) -> None:
    topics, known, clock = Broken(300, error), Known(), VirtualClock()
    known.fates = dict.fromkeys((f"task-{number}" for number in range(300)), "ended")
    settings = CleanupSettings(sweep_s=1e9, slowest=40)
    cleaner = LaneCleaner(topics, known, lambda: True, ["t/tasks-00"], clock, settings)
    reported = 0
    for _ in range(30):
        try:
            cleaner.round()
        except FairlaneError:
            reported += 1
        clock.advance(1)
    assert topics.lanes == [topics.broken]
    assert reported == topics.failed
    assert 3 <= reported <= 10, "it is tried again, less and less often"


def side(app: str) -> str:
    return f"persistent://t/shared/side.{app}~null"


class Sides:
    """Topics of a namespace, with their backlogs, and what the registry knows of them."""

    def __init__(self) -> None:
        self.backlogs: dict[str, int] = {"persistent://t/shared/low-0": 0}
        self.known: set[str] = set()
        self.attached: set[str] = set()

    def list_topics(self, namespace: str) -> list[str]:
        return list(self.backlogs)

    def backlog(self, topic: str) -> int:
        if topic not in self.backlogs:
            raise NotFound(topic)
        return self.backlogs[topic]

    def delete_topic(self, topic: str) -> bool:
        if topic not in self.attached:
            self.backlogs.pop(topic, None)
        return topic not in self.attached

    def side_lanes(self) -> frozenset[str]:
        return frozenset(self.known)

    def add_side_lane(self, topic: str) -> None:
        self.known.add(topic)

    def drop_side_lane(self, topic: str) -> None:
        self.known.discard(topic)


class SideCleanup:
    def __init__(self) -> None:
        self.sides, self.clock = Sides(), VirtualClock()
        self.cleaner = SideLaneCleaner(self.sides, self.sides, lambda: True, "t/shared", self.clock)


def test_a_side_lane_goes_once_it_stood_empty_and_nobody_is_attached() -> None:
    cleanup = SideCleanup()
    sides = cleanup.sides
    sides.backlogs |= {side("shop"): 5, side("bank"): 0}
    sides.known = {side("shop"), side("bank"), side("never-created")}
    sides.attached = {side("shop"), side("bank")}
    for _ in range(3):
        cleanup.cleaner.round()
        cleanup.clock.advance(10)
    assert sides.known == {side("shop")}
    assert side("bank") in sides.backlogs
    sides.attached = {side("shop")}
    cleanup.cleaner.round()
    assert sides.backlogs == {"persistent://t/shared/low-0": 0, side("shop"): 5}


def test_a_side_lane_that_an_empty_redis_forgot_is_known_again() -> None:
    cleanup = SideCleanup()
    cleanup.sides.backlogs[side("shop")] = 5
    cleanup.cleaner.round()
    assert cleanup.sides.known == {side("shop")}


class Busy(Sides):
    """Nobody lists its side lanes. While one is deleted, something is moved to all others."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.backlogs = {side(f"app{number}"): 0 for number in range(count)}
        self.lost = 0

    def delete_topic(self, topic: str) -> bool:
        self.lost += self.backlogs.pop(topic)
        self.backlogs = {other: backlog + 1 for other, backlog in self.backlogs.items()}
        return True


def test_a_side_lane_to_which_something_is_moved_while_others_are_deleted_is_kept_and_known() -> None:
    sides = Busy(5)
    SideLaneCleaner(sides, sides, lambda: True, "t/shared", VirtualClock()).round()
    assert not sides.lost
    assert len(sides.backlogs) == 4
    assert sides.known == set(sides.backlogs)
