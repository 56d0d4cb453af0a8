"""Clearing away lanes while topics misbehave: one never keeps another from being deleted, and nothing is lost."""

from collections.abc import Sequence

import pytest

from consumers.upkeep.lane_cleanup import CleanupSettings, Ended, LaneCleaner
from consumers.upkeep.side_lanes import SideLaneCleaner
from dispatcher.clock import VirtualClock
from dispatcher.model.errors import FairlaneError, Refused, Unreachable
from dispatcher.wire.topics import Topics

NAMES = Topics(tenant="t", namespaces=1)


class Tasks:
    """All of them have ended."""

    def ended_since(self, at_ms: int) -> list[str]:
        return []

    def tombstones(self, tasks: Sequence[str]) -> list[Ended]:
        return []

    def ends(self, tasks: Sequence[str]) -> dict[str, bool]:
        return dict.fromkeys(tasks, True)


class Broken:
    """Lanes, the first of which can never be deleted."""

    def __init__(self, count: int, error: FairlaneError) -> None:
        self.lanes = [NAMES.own_lane(f"task-{number}") for number in range(count)]
        self.broken = self.lanes[0]
        self.tries = 0
        self._error = error

    def list_topics(self, namespace: str) -> list[str]:
        return list(self.lanes)

    def delete_topic(self, topic: str) -> bool:
        if topic == self.broken:
            self.tries += 1
            raise self._error
        if topic in self.lanes:
            self.lanes.remove(topic)
        return True


@pytest.mark.parametrize("error", [Unreachable("500: the topic is fenced"), Refused("403: not yours")])
def test_a_lane_that_cannot_be_deleted_keeps_no_other_from_it(error: FairlaneError) -> None:
    topics, clock = Broken(300, error), VirtualClock()
    settings = CleanupSettings(sweep_s=1e9, slowest=40)
    cleaner = LaneCleaner(topics, Tasks(), lambda: True, NAMES.task_namespaces(), clock, settings)
    told = 0
    for _ in range(30):
        try:
            cleaner.round()
        except FairlaneError:
            told += 1
        clock.advance(1)
    assert topics.lanes == [topics.broken]
    assert told == topics.tries
    assert 3 <= told <= 10, "it is tried again, less and less often"


class Sides:
    """Side lanes nobody lists. While one is deleted, something is moved to all others."""

    def __init__(self, count: int) -> None:
        self.backlogs = {NAMES.side_lane(f"app{number}", "null"): 0 for number in range(count)}
        self.known: set[str] = set()
        self.lost = 0

    def list_topics(self, namespace: str) -> list[str]:
        return list(self.backlogs)

    def backlog(self, topic: str) -> int:
        return self.backlogs[topic]

    def delete_topic(self, topic: str) -> bool:
        self.lost += self.backlogs.pop(topic)
        self.backlogs = {other: backlog + 1 for other, backlog in self.backlogs.items()}
        return True

    def side_lanes(self) -> frozenset[str]:
        return frozenset(self.known)

    def add_side_lane(self, topic: str) -> None:
        self.known.add(topic)

    def drop_side_lane(self, topic: str) -> None:
        self.known.discard(topic)


def test_a_side_lane_to_which_something_is_moved_while_others_are_deleted_is_kept_and_known() -> None:
    sides = Sides(5)
    SideLaneCleaner(sides, sides, lambda: True, "t/shared", VirtualClock()).round()
    assert not sides.lost
    assert len(sides.backlogs) == 4
    assert sides.known == set(sides.backlogs)
