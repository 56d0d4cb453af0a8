"""Requests that left while a provider was stopped reach it when it goes on, and count for its cap then."""

from dispatcher.channels.guards.door import STALL_S, Door, Load, StallWatch
from tests.unit.channels.test_door import leaving


def answers(watch: StallWatch, from_s: float, to_s: float, took_s: float = 0.05) -> list[dict[str, Load]]:
    """Let a request leave and be answered every 10 ms. Return what the answers ended."""
    ended = []
    for number in range(round((to_s - from_s) * 100)):
        watch.left("fcm/shop", Load())
        ended.append(watch.answered(took_s, 0.05, from_s + number / 100))
    return ended


def test_answers_that_come_as_usual_are_no_stall() -> None:
    watch = StallWatch()
    assert answers(watch, 1.0, 3.0) == [{}] * 200


def test_what_left_without_an_answer_is_told_once() -> None:
    watch = StallWatch()
    answers(watch, 1.0, 2.0)
    for _ in range(30):
        watch.left("fcm/shop", Load(5, 1))
    watch.left("fcm/bank", Load())
    assert watch.answered(2.0, 0.05, 4.0) == {"fcm/shop": Load(150, 30), "fcm/bank": Load(1, 1)}
    assert watch.answered(2.0, 0.05, 4.001) == {}


def test_a_stall_of_ours_is_none_of_the_provider() -> None:
    """Nothing leaves during it, and what had left before has arrived."""
    watch = StallWatch()
    answers(watch, 1.0, 2.0)
    assert watch.answered(2.0, 0.05, 4.0) == {}


def test_a_flow_with_few_requests_is_not_stalled_by_its_usual_time() -> None:
    watch = StallWatch()
    for number in range(10):
        watch.left("fcm/shop", Load())
        assert watch.answered(0.5, 0.5, 10.0 + number) == {}, STALL_S


def test_others_wait_until_what_the_stall_held_back_has_had_its_time() -> None:
    door = Door()
    door.allot(1_000, 0.0, 1.0)
    assert leaving(door, 0.0, 0.2) > 190
    door.pay(300)
    assert leaving(door, 0.2, 0.49) == 0
    assert leaving(door, 0.49, 1.0) > 480


def test_a_request_that_costs_more_than_one_is_paid_for_by_those_after_it() -> None:
    door = Door()
    door.allot(100, 0.0, 1.0)
    assert door.wait_s(0.01) == 0.0
    door.leave(50)
    assert door.wait_s(0.02) > 0.45
    assert door.wait_s(0.5) > 0.0
    assert door.wait_s(0.52) == 0.0
    assert door.left(0.52) < 51
