"""Law 3 in seconds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.analysis.longest_wait import Lane, longest_waits
from dispatcher.model.pools import WINDOW_S

WEIGHTS = {"high": 6_000, "medium": 3_000, "low": 1_000}


def test_one_lane_in_each_tier() -> None:
    lanes = [Lane("high", "a", 1_000, 60), Lane("medium", "a", 1_000, 30), Lane("low", "a", 1_000, 10)]
    found = longest_waits(1_000, WEIGHTS, lanes)
    assert found["high"].seconds == pytest.approx(WINDOW_S + (60 * 10 / 6 + 40) / 1_000)
    assert found["low"].seconds == pytest.approx(WINDOW_S + (10 * 10 / 1 + 90) / 1_000)
    assert (found["low"].sends, found["low"].chunk) == (1, 10)


def test_an_idle_tier_waits_for_the_others_only() -> None:
    found = longest_waits(1_000, WEIGHTS, [Lane("low", "a", 1_000, 20)])
    assert found["high"].seconds == pytest.approx(WINDOW_S + (100 * 7 / 6 + 20) / 1_000)
    assert found["low"].seconds == pytest.approx(WINDOW_S + 0.02)


def test_lanes_of_a_tier_take_turns_by_weight() -> None:
    lanes = [Lane("low", "a", 1_000, 10), Lane("low", "a", 2_500, 10)]
    assert longest_waits(100, WEIGHTS, lanes)["low"].sends == 4


def test_where_apps_share_a_busy_app_does_not_make_others_wait() -> None:
    lanes = [Lane("low", "busy", 1_000, 10)] * 9 + [Lane("low", "small", 1_000, 10)]
    assert longest_waits(100, WEIGHTS, lanes)["low"].sends == 10
    assert longest_waits(100, WEIGHTS, lanes, "apps")["low"].sends == 18
    assert longest_waits(100, WEIGHTS, lanes, "apps", {"busy": 9_000})["low"].sends == 10


def test_without_a_capacity_nothing_can_be_said() -> None:
    assert longest_waits(0, WEIGHTS, [])["high"].seconds is None


@given(
    st.lists(st.builds(Lane, st.sampled_from(list(WEIGHTS)), st.just("a"), st.just(1_000), st.integers(1, 500))),
    st.integers(1, 10**6),
)
def test_more_capacity_and_fewer_lanes_never_make_it_longer(lanes: list[Lane], capacity: int) -> None:
    waits, faster = longest_waits(capacity, WEIGHTS, lanes), longest_waits(capacity + 1, WEIGHTS, lanes)
    for tier, wait in waits.items():
        assert (faster[tier].seconds or 0) <= (wait.seconds or 0)
        assert wait.sends >= sum(lane.tier == tier for lane in lanes)
