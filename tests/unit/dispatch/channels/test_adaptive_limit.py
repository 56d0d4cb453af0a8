"""The limit of requests under way follows the time that answers take."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.channels.guards.adaptive_limit import MIN_ANSWERS, WINDOW_S, AdaptiveLimit

HIGHEST = 1_000


class Flow:
    """Requests that keep the limit busy, answered in windows of WINDOW_S."""

    def __init__(self, highest: int = HIGHEST) -> None:
        self.limit = AdaptiveLimit(highest)
        self.now_s = 50.0

    def windows(self, count: int, *took_s: float, under_way: int | None = None) -> int:
        """Let answers take these times, for some windows. Return the limit at the end."""
        for _ in range(count):
            busy = self.limit.limit if under_way is None else under_way
            times = [*took_s] * max(1, -(-2 * MIN_ANSWERS // len(took_s)))
            for each_s in times:
                self.limit.ended(each_s, busy, self.now_s)
            self.now_s += WINDOW_S
        self.limit.ended(took_s[0], self.limit.limit if under_way is None else under_way, self.now_s)
        return self.limit.limit


@pytest.fixture
def flow() -> Flow:
    return Flow()


def test_it_begins_at_the_highest_and_stays_there_while_answers_take_their_usual_time(flow: Flow) -> None:
    assert flow.limit.limit == HIGHEST
    assert flow.windows(60, 0.02, 0.05, 0.08) == HIGHEST
    assert flow.limit.usual_s == pytest.approx(0.05, rel=0.3)


def test_it_falls_while_answers_take_much_longer_than_usual_and_grows_again_after(flow: Flow) -> None:
    flow.windows(10, 0.05)
    assert flow.windows(5, 1.0) < HIGHEST / 4
    assert flow.windows(60, 0.05) == HIGHEST


def test_a_provider_that_stays_slower_becomes_usual(flow: Flow) -> None:
    flow.windows(10, 0.05)
    flow.windows(60, 0.5)
    assert flow.windows(60, 0.5) == HIGHEST


@pytest.mark.parametrize("slow_s", [6.0, 600.0])
def test_some_slow_answers_do_not_count(flow: Flow, slow_s: float) -> None:
    flow.windows(10, 0.05)
    assert flow.windows(20, 0.05, 0.05, 0.05, 0.05, slow_s) == HIGHEST


def test_answers_say_nothing_about_a_limit_that_is_not_used(flow: Flow) -> None:
    flow.windows(10, 0.05)
    assert flow.windows(20, 2.0, under_way=10) == HIGHEST


def test_it_does_not_change_more_often_than_once_in_a_window(flow: Flow) -> None:
    flow.windows(10, 0.05)
    for _ in range(10_000):
        flow.limit.ended(5.0, HIGHEST, flow.now_s + WINDOW_S / 2)
    assert flow.limit.limit == HIGHEST


def test_a_paced_flow_has_not_many_more_requests_under_way_than_usual(flow: Flow) -> None:
    assert flow.limit.paced_limit == HIGHEST
    flow.windows(3, 0.05, under_way=100)
    assert flow.limit.paced_limit == 220
    flow.windows(2, 0.05, under_way=200)
    assert flow.limit.paced_limit == 420
    flow.windows(2, 0.05, under_way=1)
    assert flow.limit.paced_limit == 22


@given(
    highest=st.integers(-1, 5_000),
    times=st.lists(st.floats(0.0, 1e4, allow_nan=False), min_size=1, max_size=30),
    seed=st.integers(0, 9),
)
def test_it_stays_from_one_to_the_highest(highest: int, times: list[float], seed: int) -> None:
    flow, rng = Flow(highest), random.Random(seed)
    for took_s in times:
        flow.windows(rng.randrange(1, 6), took_s)
        assert 1 <= flow.limit.paced_limit <= flow.limit.limit <= max(1, highest)
