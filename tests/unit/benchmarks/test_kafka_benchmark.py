"""benchmarks/kafka without servers: the order of messages and what a rate is."""

import threading
from collections.abc import Sequence
from itertools import islice

import pytest

from benchmarks.kafka import late_task
from benchmarks.kafka.load import IN_FLIGHT, MESSAGE_BYTES, PATTERNS, WARM_S, Load, Window, pieces, rate


@pytest.mark.parametrize("pattern", PATTERNS)
def test_topics_have_their_turns_with_pieces_of_the_patterns_size(pattern: str) -> None:
    at_once = PATTERNS[pattern]
    found = list(islice(pieces(3, at_once), 7))
    assert [topic for topic, _ in found] == [0, 1, 2, 0, 1, 2, 0]
    assert {len(bodies) for _, bodies in found} == {at_once}
    assert {len(body) for _, bodies in found for body in bodies} == {MESSAGE_BYTES}


class SlowPublisher:
    """Takes a thousandth of a second for a message, of which half are confirmed at once."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.sent = 0
        self.settled = False

    def send(self, topic: int, bodies: Sequence[bytes]) -> None:
        self.now_s += 0.001 * len(bodies)
        self.sent += len(bodies)

    def confirmed(self) -> int:
        return self.sent // 2

    def settle(self, timeout_s: float) -> None:
        self.settled = True


def test_a_rate_counts_what_is_confirmed_after_the_first_moments() -> None:
    publisher = SlowPublisher()
    load = Load(address="", topics=2, seconds=2.0)
    assert rate(publisher, load, 1, lambda: publisher.now_s) == pytest.approx(500, rel=0.01)
    assert publisher.sent == pytest.approx(1000 * (WARM_S + 2.0), rel=0.01)
    assert publisher.settled


def test_a_full_window_lets_its_publisher_wait_for_a_receipt() -> None:
    window, added = Window(), threading.Event()
    window.add(IN_FLIGHT)

    def add() -> None:
        window.add(1)
        added.set()

    thread = threading.Thread(target=add)
    thread.start()
    assert not added.is_set()
    window.confirm(1)
    thread.join(10)
    assert added.is_set()
    assert window.confirmed() == 1


def test_a_lost_message_ends_the_run() -> None:
    window = Window()
    window.add(1)
    window.confirm(1, "timeout")
    with pytest.raises(RuntimeError, match="timeout"):
        window.add(1)


def test_the_fair_time_is_that_of_equal_parts_of_the_tier() -> None:
    scene = late_task.TestBed(capacity=1_000, earlier=3, earlier_targets=100, late_targets=60)
    assert scene.high_rate == 600
    assert scene.fair_s == pytest.approx(0.4)
    found = late_task.figures(scene, took_s=0.8, earlier_left=75)
    assert found["compared with the fair time"] == pytest.approx(2)
    assert found["targets of earlier tasks sent before it was done, %"] == 75
