import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.retry import MAX_SPARED, NextStep, delay_after, next_step
from dispatcher.wire.outcome import RETRY, SENT, UNSENT, Outcome, Verdict
from dispatcher.wire.topics import RETRY_STEPS_S


def test_delays_grow_with_the_attempts() -> None:
    assert [delay_after(attempt) for attempt in range(7)] == [1, 5, 30, 120, 600, 600, 600]


@pytest.mark.parametrize(("wish_s", "delay_s"), [(0.0, 1), (0.5, 1), (1.0, 1), (1.1, 5), (31.0, 120), (9_999.0, 600)])
def test_the_providers_wish_is_rounded_up_to_a_step(wish_s: float, delay_s: int) -> None:
    assert delay_after(3, wish_s) == delay_s


@given(attempt=st.integers(0, 50), most=st.integers(1, 50))
def test_attempts_are_bounded(attempt: int, most: int) -> None:
    step = next_step(attempt, most, Verdict(RETRY, "busy"))
    if attempt + 1 < most:
        assert step.code == RETRY
        assert step.delay_s in RETRY_STEPS_S
    else:
        assert step.code == Outcome.FAILED
        assert step.delay_s == 0
        assert str(attempt + 1) in step.reason
        assert "busy" in step.reason


def test_final_verdicts_stay_what_they_are() -> None:
    assert next_step(0, 3, SENT) == NextStep(int(Outcome.SENT))
    assert next_step(2, 3, Verdict(int(Outcome.INVALID), "gone")) == NextStep(int(Outcome.INVALID), "gone")


def test_a_single_attempt_is_named_in_the_singular() -> None:
    assert next_step(0, 1, Verdict(RETRY)).reason == "gave up after 1 attempt; the last: no reason given"


def test_a_code_that_means_nothing_is_tried_again_and_never_stored() -> None:
    step = next_step(0, 2, Verdict(77))
    assert step.code == RETRY
    assert "77" in step.reason
    assert next_step(1, 2, Verdict(77)).code == Outcome.FAILED


@given(attempt=st.integers(0, MAX_SPARED - 1), max_attempts=st.integers(1, 20))
def test_an_attempt_in_which_nothing_was_sent_does_not_count(attempt: int, max_attempts: int) -> None:
    step = next_step(attempt, max_attempts, Verdict(UNSENT, "paused", 90.0))
    assert step == NextStep(RETRY, "paused", 120, is_spared=True)


def test_what_cannot_be_sent_for_two_days_is_given_up() -> None:
    assert next_step(MAX_SPARED, 5, Verdict(UNSENT, "paused")).code == Outcome.FAILED
