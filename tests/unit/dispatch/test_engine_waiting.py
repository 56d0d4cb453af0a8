"""Demand of lanes that wait for their turn: announced before it is forgotten, at a price that does not grow."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.engine.leases import SLICE, Waiting
from dispatcher.ports import WaitingLane
from tests.unit.reachable import texts_in

CALLS_S = 0.05
"""Between two calls of a worker, which may take a slice along."""


def lanes(count: int, prefix: str = "x") -> list[WaitingLane]:
    return [WaitingLane(f"{prefix}{number}", f"{prefix}{number}", "high", 10) for number in range(count)]


def announced(waiting: Waiting, since_s: float, seconds: float) -> dict[str, list[float]]:
    """When each lane was, by a worker that calls often."""
    times: dict[str, list[float]] = {}
    for call in range(round(seconds / CALLS_S)):
        now_s = since_s + call * CALLS_S
        for ask in waiting.take(now_s):
            assert ask.waiting
            assert not ask.wants
            times.setdefault(ask.lane, []).append(now_s)
    return times


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 2_000))
def test_every_lane_is_announced_again_before_it_is_forgotten(count: int) -> None:
    waiting = Waiting()
    waiting.change(lanes(count))
    good_s = waiting.valid_ms / 1_000
    times = announced(waiting, 0.0, 4 * good_s)
    assert len(times) == count
    gaps = [later - sooner for at_s in times.values() for sooner, later in pairwise(at_s)]
    assert max(gaps) < good_s


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 20_000))
def test_slices_are_taken_five_times_a_second_at_most(count: int) -> None:
    waiting = Waiting()
    waiting.change(lanes(count))
    slices = sum(bool(waiting.take(call * 0.01)) for call in range(1_000))
    assert slices <= 5 * 10 + 1


def taken(waiting: Waiting, now_s: float) -> set[str]:
    return {ask.lane for ask in waiting.take(now_s)}


def test_a_lane_that_is_new_is_announced_at_once_though_others_were_a_moment_ago() -> None:
    waiting = Waiting()
    waiting.change(lanes(3))
    assert taken(waiting, 10.0) == {"x0", "x1", "x2"}
    assert not taken(waiting, 10.5)
    waiting.change([*lanes(3), *lanes(1, "new")])
    assert "new0" in taken(waiting, 10.5)


def test_of_many_the_new_ones_come_first() -> None:
    waiting = Waiting()
    waiting.change(lanes(500))
    waiting.take(0.0)
    waiting.change([*lanes(500), *lanes(5, "new")])
    assert {f"new{number}" for number in range(5)} < taken(waiting, 1.0)


def test_a_lane_that_waits_no_more_is_not_announced() -> None:
    waiting = Waiting()
    waiting.change(lanes(3))
    waiting.change(lanes(1))
    assert taken(waiting, 0.0) == {"x0"}
    waiting.change([])
    assert waiting.due_s() is None
    assert not taken(waiting, 100.0)


def test_where_nothing_is_announced_for_days_lanes_of_the_past_are_forgotten() -> None:
    """Where capacity is plenty nobody keeps a place, and tasks come and go."""
    waiting = Waiting()
    for day in range(1_000):
        waiting.change(lanes(10, f"day{day}-"))
    assert len(texts_in(waiting)) < 10 * SLICE
    assert taken(waiting, 0.0) == {f"day999-{number}" for number in range(10)}
