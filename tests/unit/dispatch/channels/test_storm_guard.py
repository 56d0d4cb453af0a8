"""A storm of dead targets is told from what is usual for a flow."""

import pytest

from dispatcher.channels.guards.storm_guard import MIN_DEAD, MIN_DEAD_ALONE, StormGuard


def answers(guard: StormGuard, dead: int, sent: int, from_s: float, seconds: float = 60.0) -> bool:
    """Spread answers evenly over a time. Return whether any of them was suspected."""
    total, suspected = dead + sent, False
    for number in range(total):
        now_s = from_s + seconds * number / total
        if (number + 1) * dead // total > number * dead // total:
            suspected |= guard.dead(now_s)
        else:
            guard.sent(now_s)
    return suspected


@pytest.mark.parametrize(("dead", "sent"), [(10, 990), (290, 710), (MIN_DEAD - 1, 1)])
def test_what_is_usual_or_too_little_is_not_suspected(dead: int, sent: int) -> None:
    guard = StormGuard()
    guard.sent(0.0)
    assert not answers(guard, dead, sent, 0.0)


def test_more_than_thirty_percent_in_a_minute_is_suspected() -> None:
    assert answers(StormGuard(), 400, 600, 0.0)


def test_without_a_single_success_few_are_enough() -> None:
    guard = StormGuard()
    assert [guard.dead(0.0) for _ in range(MIN_DEAD_ALONE)] == [False] * (MIN_DEAD_ALONE - 1) + [True]


def test_successes_of_more_than_a_minute_ago_do_not_count() -> None:
    guard = StormGuard()
    answers(guard, 0, 1_000, 0.0)
    assert answers(guard, MIN_DEAD_ALONE, 0, 130.0, seconds=1.0)


def test_a_flow_whose_lists_are_old_is_used_to_it() -> None:
    """Its share grows slowly to a quarter, so two fifths are not three times as many; four fifths are."""
    guard = StormGuard()
    for minute in range(30):
        assert not answers(guard, 250, 750, 60.0 * minute), minute
    assert not answers(guard, 400, 600, 60.0 * 30)
    assert answers(guard, 9_000, 1_000, 60.0 * 32)


def test_the_text_says_what_was_counted() -> None:
    guard = StormGuard()
    guard.sent(0.0)
    guard.dead(0.0)
    assert guard.text() == "1 of 2 targets in the last minute are dead, says the provider"
