"""The next step of a target after a verdict, and how long it waits for it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.retry import (
    JITTER,
    MAX_WAIT_S,
    NextStep,
    TargetState,
    delay_ms,
    next_step,
    step_of_waiting,
    step_without_call,
)
from dispatcher.wire.envelope import ATTEMPT_LIMIT, Envelope
from dispatcher.wire.outcome import RETRY, SENT, UNKNOWN, UNSENT, Outcome, Verdict
from dispatcher.wire.topics import RETRY_STEPS_S
from tests.unit.dispatch.consumers.envelopes import envelope

NOW_MS = 1_700_000_000_000
FRESH = TargetState()


def made(attempt: int = 0, max_attempts: int = 5, **fields: Any) -> Envelope:
    return envelope(3, attempt=attempt, max_attempts=max_attempts, **fields)


def after(verdict: Verdict, state: TargetState = FRESH, attempt: int = 0, **fields: Any) -> NextStep:
    return next_step(made(attempt, **fields), state, verdict, NOW_MS)


def waits_s(step: NextStep) -> float:
    return (step.state.due_ms - NOW_MS) / 1000


@pytest.mark.parametrize("step", range(7))
def test_delays_grow_with_the_tries_and_are_longer_by_up_to_a_quarter(step: int) -> None:
    shortest = RETRY_STEPS_S[min(step, len(RETRY_STEPS_S) - 1)]
    delays = {delay_ms(envelope(sequence), step) for sequence in range(200)}
    assert len(delays) > 100
    assert 1000 * shortest <= min(delays) < 1030 * shortest
    assert 1000 * shortest * (1.22) < max(delays) <= 1000 * shortest * (1 + JITTER)


@pytest.mark.parametrize("wish_s", [0.0, 0.5, 31.0, 9_999.0, 86_400.0])
def test_the_provider_is_not_called_before_it_wishes(wish_s: float) -> None:
    wait_s = waits_s(after(Verdict(RETRY, "", wish_s), TargetState(3)))
    assert max(wish_s, 120) <= wait_s <= max(wish_s, 120) * (1 + JITTER) + 0.001


@pytest.mark.parametrize("wish_s", [30 * 86_400.0, 1e308, float("inf")])
def test_a_wish_for_ever_is_cut_with_its_jitter(wish_s: float) -> None:
    """A task lives for 37 days at most."""
    for attempt in range(50):
        wait_s = waits_s(after(Verdict(RETRY, "", wish_s), attempt=attempt, max_attempts=100))
        assert wait_s == MAX_WAIT_S


def test_targets_of_an_envelope_with_the_same_delay_wait_alike() -> None:
    steps = {after(Verdict(RETRY, "", 7.0)).state.due_ms, after(Verdict(RETRY, "x", 7.0)).state.due_ms}
    assert len(steps) == 1
    assert after(Verdict(RETRY, "", 7.0), attempt=1).state.due_ms not in steps


def test_a_target_is_due_in_time_to_expire() -> None:
    assert after(Verdict(RETRY, "", 9_000.0), expires_ms=NOW_MS + 5_000).state.due_ms == NOW_MS + 5_001
    assert after(Verdict(RETRY, "", 9_000.0), expires_ms=NOW_MS - 5_000).state.due_ms == NOW_MS


@given(tries=st.integers(0, 25), most=st.integers(1, 20), code=st.sampled_from([RETRY, UNKNOWN]))
def test_tries_are_bounded(tries: int, most: int, code: int) -> None:
    step = after(Verdict(code, "busy"), TargetState(tries), attempt=99, max_attempts=most)
    if tries + 1 < most:
        assert (step.code, step.state.tries, step.state.first_ms) == (code, tries + 1, NOW_MS)
    else:
        assert step.code == Outcome.FAILED
        assert str(tries + 1) in step.reason
        assert "busy" in step.reason


def test_final_verdicts_stay_what_they_are() -> None:
    assert after(SENT)[:2] == (int(Outcome.SENT), "")
    invalid = Verdict(int(Outcome.INVALID), "gone", died_ms=5)
    assert after(invalid, TargetState(1, 0, 7), 2) == NextStep(1, "gone", TargetState(2, 0, 7), 5)


def test_a_single_attempt_is_named_in_the_singular() -> None:
    assert after(Verdict(RETRY), max_attempts=1).reason == "gave up after 1 attempt; the last: no reason given"


def test_a_code_that_means_nothing_is_tried_again_and_never_stored() -> None:
    step = after(Verdict(77))
    assert step.code == RETRY
    assert "77" in step.reason
    assert after(Verdict(77), max_attempts=1).code == Outcome.FAILED


@given(attempt=st.integers(0, ATTEMPT_LIMIT - 2), tries=st.integers(0, 4))
def test_what_was_not_sent_costs_no_try(attempt: int, tries: int) -> None:
    step = after(Verdict(UNSENT, "paused", 90.0), TargetState(tries, 0, 7), attempt)
    assert (step.code, step.reason, step.state.tries, step.state.first_ms) == (UNSENT, "paused", tries, 7)
    assert 90 <= waits_s(step) <= 120 * (1 + JITTER) + 0.001


def test_rounds_are_bounded() -> None:
    last = ATTEMPT_LIMIT - 1
    assert after(Verdict(UNSENT, "paused"), attempt=last)[:2] == (
        int(Outcome.FAILED),
        "gave up after 4096 rounds; the last: paused",
    )
    assert step_of_waiting(made(last), FRESH).code == Outcome.FAILED
    assert step_of_waiting(made(last - 1), TargetState(1, 2, 3)) == NextStep(UNSENT, "", TargetState(1, 2, 3))


def test_what_is_unknown_is_given_up_if_the_task_wishes_so() -> None:
    assert after(Verdict(UNKNOWN, "no answer"), gives_up_unknown=True)[:2] == (2, "unknown: no answer")
    assert after(Verdict(UNKNOWN), gives_up_unknown=True).reason == "unknown"
    assert after(Verdict(RETRY, "busy"), gives_up_unknown=True).code == RETRY


@pytest.mark.parametrize(
    ("state", "gives_up", "is_sent"),
    [
        (TargetState(1), True, True),
        (TargetState(1, is_lost=True), False, True),
        (TargetState(1, is_lost=True), True, False),
        (TargetState(5, is_lost=True), False, False),
        (TargetState(5), False, False),
    ],
)
def test_a_target_without_a_try_left_is_not_sent(state: TargetState, *, gives_up: bool, is_sent: bool) -> None:
    step = step_without_call(made(gives_up_unknown=gives_up), state)
    assert (step is None) == is_sent
    if step is not None:
        assert step.code == Outcome.FAILED
        assert step.reason.startswith("unknown: its worker ended" if state.is_lost else "gave up after 5 attempts")


HOUR_MS = 3_600_000


@pytest.mark.parametrize("code", [RETRY, UNKNOWN, UNSENT])
def test_a_target_is_given_up_after_a_try_that_ends_too_long_after_its_first_call(code: int) -> None:
    old = TargetState(2, 0, NOW_MS - HOUR_MS)
    assert after(Verdict(code), old._replace(first_ms=NOW_MS - HOUR_MS + 1), retry_for_ms=HOUR_MS).code == code
    assert after(Verdict(code), old).code == code, "no bound"
    step = after(Verdict(code, "busy"), old, retry_for_ms=HOUR_MS)
    assert (step.code, step.reason) == (
        int(Outcome.FAILED), "gave up 60 m 00 s after the first attempt; the last: busy"
    ) or step.reason.startswith("gave up 1 h")  # fmt: skip


def test_pauses_do_not_count_towards_the_age_nor_does_time_before_the_first_call() -> None:
    old = TargetState(2, 0, NOW_MS - 3 * HOUR_MS, paused_ms=2 * HOUR_MS + 1)
    assert after(Verdict(RETRY), old, retry_for_ms=HOUR_MS).code == RETRY
    assert after(Verdict(UNSENT), FRESH, retry_for_ms=1_000).code == UNSENT


def test_eight_tries_outlast_half_an_hour() -> None:
    state, at_ms = FRESH, NOW_MS
    for _ in range(7):
        step = next_step(made(max_attempts=8), state, Verdict(RETRY), at_ms)
        assert step.code == RETRY
        state, at_ms = step.state, step.state.due_ms
    assert at_ms - NOW_MS > 30 * 60_000


@pytest.mark.parametrize("round_", [0, 3, 9, 400])
def test_a_wait_that_the_channel_knows_does_not_grow_while_nothing_is_sent(round_: int) -> None:
    step = after(Verdict(UNSENT, "the cap has not let it through in time", 1.0), attempt=round_)
    assert 1.0 <= waits_s(step) <= 1.0 * (1 + JITTER) + 0.001
    assert step.state.tries == 0
