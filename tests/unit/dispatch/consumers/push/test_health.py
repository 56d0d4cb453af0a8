"""When a provider counts as down, and how long targets wait that it may have taken."""

import pytest

from consumers.delivery.push.health import DOWN_IN_A_ROW, Health
from dispatcher.model.task import PushTask
from dispatcher.retry import TargetState, next_step
from dispatcher.wire.outcome import UNKNOWN, Verdict
from tests.unit.dispatch.consumers.envelopes import envelope

AN_HOUR_S = 3_600.0
USUAL = PushTask(app="shop", tier="high", channel="log", message="hello").max_attempts


def test_ten_answers_in_a_row_are_down_and_another_answer_begins_again() -> None:
    health = Health()
    assert [health.answered_down(0.0) for _ in range(DOWN_IN_A_ROW)] == [*[False] * (DOWN_IN_A_ROW - 1), True]
    health.answered(1.0)
    assert not health.answered_down(2.0)


@pytest.mark.parametrize("answers", [True, False])
def test_the_tries_of_a_target_outlast_an_hour_without_a_good_answer(answers: bool) -> None:
    """Also those of the only target, which every probe takes. No wait is longer than twice the time until then."""
    health, one, now_s = Health(), envelope(0, ["a"], max_attempts=USUAL), 0.0
    state, code = TargetState(), UNKNOWN
    while code == UNKNOWN:
        began_s, now_s = now_s, now_s + 0.1
        if answers:
            health.answered_down(now_s)
        else:
            health.unanswered(began_s, now_s)
        wait_s = health.unknown_wait_s(now_s)
        step = next_step(one, state, Verdict(UNKNOWN, "", wait_s or 10.0), int(now_s * 1000))
        assert wait_s is None or wait_s <= min(2 * now_s, 1_800.0)
        state, code, now_s = step.state, step.code, max(now_s, step.state.due_ms / 1000)
    assert now_s > AN_HOUR_S


def test_a_single_failure_between_good_answers_makes_no_target_wait() -> None:
    health = Health()
    health.answered(1.0)
    health.answered_down(2.0)
    health.answered(3.0)
    assert health.unknown_wait_s(900.0) is None


def test_many_requests_without_an_answer_at_one_moment_are_one_silence() -> None:
    health = Health()
    pauses = [health.unanswered(0.0, 6.0 + number / 1_000) for number in range(1_000)]
    assert [pause_s for pause_s in pauses if pause_s is not None] == [1.0]
    assert health.unanswered(8.0, 14.0) == 2.0
