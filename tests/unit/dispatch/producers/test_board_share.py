"""The board's share of Redis' time."""

import pytest

from producers.desk.board.share import PART, Share
from tests.virtual_clock import VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def spend(share: Share, took_s: float, tasks: int = 200, shape: str = "view") -> None:
    share.note("read_tasks", took_s)
    share.charge(shape, tasks)


def test_calls_take_no_more_than_the_part(clock: VirtualClock) -> None:
    share, calls = Share(clock), 0
    for _ in range(60_000):
        if share.wait_s() <= 0:
            spend(share, 0.005)
            calls += 1
        clock.advance(0.001)
    assert calls * 0.005 == pytest.approx(60 * PART, rel=0.1)


def test_what_was_not_taken_for_a_second_may_be_taken_at_once(clock: VirtualClock) -> None:
    share, calls = Share(clock), 0
    clock.advance(100)
    while share.wait_s() <= 0:
        spend(share, 0.005)
        calls += 1
    assert calls == pytest.approx(1.0 * PART / 0.005, abs=1)


def test_call_that_waited_for_this_process_costs_what_the_quickest_took(clock: VirtualClock) -> None:
    share = Share(clock)
    spend(share, 0.002)
    share.note("read_tasks", 0.2)
    assert share.charge("view", 400) == pytest.approx(0.004)
    share.note("", 0.001)
    assert share.charge("marks", 100) == pytest.approx(0.001)


def test_many_pages_do_not_keep_changes_from_being_read(clock: VirtualClock) -> None:
    share = Share(clock)
    for _ in range(1_000):
        spend(share, 0.005)
    clock.advance(0.3)
    assert share.wait_s() == 0
