"""A message is condemned by its first hundred answers, if all of them refuse it."""

import pytest

from dispatcher.channels.guards.trouble import FIRST_ANSWERS, KINDS, MAX_TASKS, PayloadGuard
from dispatcher.channels.verdict_table import Effect


def refusals(guard: PayloadGuard, count: int, task: str = "t") -> list[bool]:
    return [guard.answered(task, Effect.PAYLOAD) for _ in range(count)]


def test_the_hundredth_refusal_condemns_it_once() -> None:
    guard = PayloadGuard()
    assert refusals(guard, FIRST_ANSWERS + 50) == [False] * (FIRST_ANSWERS - 1) + [True] + [False] * 50


@pytest.mark.parametrize("effect", [effect for effect in Effect if effect is not Effect.PAYLOAD])
def test_any_other_answer_acquits_it_for_good_but_trouble_of_the_flow(effect: Effect) -> None:
    guard = PayloadGuard()
    refusals(guard, 50)
    assert not guard.answered("t", effect)
    assert any(refusals(guard, 10 * FIRST_ANSWERS)) == (effect in KINDS)


def test_tasks_are_counted_apart_and_not_too_many_are_kept() -> None:
    guard = PayloadGuard()
    assert not any(refusals(guard, 99, "a") + refusals(guard, 99, "b"))
    assert refusals(guard, 1, "a") == [True]
    for number in range(MAX_TASKS):
        guard.answered(f"other-{number}", Effect.PAYLOAD)
    assert refusals(guard, 1, "b") == [False], "it was forgotten"
