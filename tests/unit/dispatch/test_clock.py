"""The wall clock of a worker follows the server's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.clock import ClockComparison, ServiceClock
from tests.virtual_clock import VirtualClock

SERVER_MS = 1_700_000_000_000


@given(off_s=st.sampled_from([-300, -2, 0, 2, 300]), there_ms=st.integers(0, 900), back_ms=st.integers(0, 900))
def test_a_wrong_clock_is_put_right_within_the_time_of_a_call(off_s: int, there_ms: int, back_ms: int) -> None:
    own = VirtualClock(SERVER_MS + off_s * 1000)
    clock = ServiceClock(own)
    asked_s = clock.monotonic_s()
    own.advance((there_ms + back_ms) / 1000)
    clock.sync(SERVER_MS + there_ms, asked_s)
    assert clock.wall_ms() == pytest.approx(SERVER_MS + there_ms + back_ms, abs=max(there_ms, back_ms) + 1)
    own.advance(60)
    assert clock.wall_ms() == pytest.approx(SERVER_MS + there_ms + back_ms + 60_000, abs=max(there_ms, back_ms) + 1)


def test_a_clock_that_is_right_is_left_alone() -> None:
    own = VirtualClock(SERVER_MS)
    clock = ServiceClock(own)
    for there_ms, back_ms in [(1, 90), (90, 1), (400, 400)]:
        asked_s = clock.monotonic_s()
        own.advance(there_ms / 1000)
        server_ms = own.wall_ms()
        own.advance(back_ms / 1000)
        clock.sync(server_ms, asked_s)
        assert clock.wall_ms() == pytest.approx(own.wall_ms(), abs=1)


def test_a_step_of_the_machines_clock_is_not_followed() -> None:
    class SetForward(VirtualClock):
        def wall_ms(self) -> int:
            return super().wall_ms() + (300_000 if self.monotonic_s() else 0)

    own = SetForward(SERVER_MS)
    clock = ServiceClock(own)
    own.advance(1)
    assert clock.wall_ms() == pytest.approx(SERVER_MS + 1_000, abs=1)


# ------------------------------------------------------------------ which of two clocks went on further
answers = st.tuples(st.floats(0, 60), st.floats(0, 3), st.floats(0, 3))
"""Seconds of rest, until the call is carried out, and until its answer is there."""


@given(calls=st.lists(answers, min_size=2, max_size=20), span_s=st.sampled_from([0.0, 2.0, 100.0]))
def test_two_clocks_that_go_alike_never_seem_to_differ_however_late_answers_come(
    calls: list[tuple[float, float, float]], span_s: float
) -> None:
    own, comparison = VirtualClock(SERVER_MS), ClockComparison(span_s)
    for rest_s, there_s, back_s in calls:
        own.advance(rest_s)
        asked_s = own.monotonic_s()
        own.advance(there_s)
        server_ms = own.wall_ms()
        own.advance(back_s)
        assert (comparison.gained_s(server_ms, asked_s, own.monotonic_s()) or 0.0) < 0.001


@given(calls=st.lists(answers, min_size=1, max_size=10), still_s=st.floats(0.5, 1e5), last=answers)
def test_what_one_clock_went_on_further_is_seen_but_for_the_time_of_two_calls(
    calls: list[tuple[float, float, float]], still_s: float, last: tuple[float, float, float]
) -> None:
    own, comparison, ahead_s = VirtualClock(SERVER_MS), ClockComparison(1e6), 0.0
    for place, (rest_s, there_s, back_s) in enumerate([*calls, last]):
        own.advance(rest_s)
        ahead_s = still_s if place == len(calls) else 0.0
        asked_s = own.monotonic_s()
        own.advance(there_s)
        server_ms = own.wall_ms() + round(ahead_s * 1000)
        own.advance(back_s)
        gained_s = comparison.gained_s(server_ms, asked_s, own.monotonic_s())
    slack_s = calls[-1][1] + last[2]
    assert gained_s is not None
    assert still_s - slack_s - 0.002 <= gained_s <= still_s + 0.002


def test_standing_still_a_little_again_and_again_adds_up() -> None:
    """Each less than what matters: what was granted before the first is as old as all of them together."""
    comparison = ClockComparison(span_s=2.0)
    gained = [comparison.gained_s(round(1_000 * (0.1 + 0.4) * n), 0.1 * n, 0.1 * n) for n in range(6)]
    assert gained[1:] == pytest.approx([0.4, 0.8, 1.2, 1.6, 2.0])


def test_after_a_step_back_what_is_compared_is_how_clocks_go_on_from_there() -> None:
    comparison = ClockComparison(span_s=9.0)
    assert comparison.gained_s(100_000, 1.0, 1.0) is None
    assert comparison.gained_s(41_000, 2.0, 2.0) == pytest.approx(-60)
    assert comparison.gained_s(42_000, 3.0, 3.0) == pytest.approx(0)


def test_a_step_is_told_once_and_the_next_one_is_told_too() -> None:
    comparison = ClockComparison(span_s=9.0)
    comparison.gained_s(1_000, 1.0, 1.0)
    assert comparison.gained_s(12_000, 2.0, 2.0) == pytest.approx(10)
    comparison.begin_again()
    assert comparison.gained_s(13_000, 3.0, 3.0) == pytest.approx(0)
    assert comparison.gained_s(19_000, 4.0, 4.0) == pytest.approx(5)


def test_clocks_that_drift_apart_for_hours_are_not_compared() -> None:
    """Whatever was granted that long ago has ended by our own clock."""
    comparison = ClockComparison(span_s=2.0)
    comparison.gained_s(1_000, 1.0, 1.0)
    assert comparison.gained_s(7_202_000, 7_200.0, 7_200.0) is None
