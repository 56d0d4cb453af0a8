"""Opening consumers: bounded, patient with what is missing, and never two consumers for one lane."""

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pulsar
import pytest

from consumers.lanes.background import Background
from consumers.lanes.opening import Opener, Opening, OpenSettings
from dispatcher.retry import Backoff
from tests.unit.dispatch.consumers.fakes import eventually
from tests.virtual_clock import VirtualClock

Answer = Callable[[Any, Any], None]
MISSING = pulsar.Result.TopicNotFound
OK = pulsar.Result.Ok


class Consumer:
    closed = False

    def close_async(self, _done: Any) -> None:
        self.closed = True


class Client:
    """Remembers attempts to subscribe; the test answers them."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Answer]] = []
        self._client = self

    def subscribe_async(self, lane: str, _subscription: str, _configuration: Any, answer: Answer) -> None:
        self.asked.append((lane, answer))

    def answer(self, number: int, result: Any = OK) -> Consumer:
        eventually(lambda: len(self.asked) > number)
        consumer = Consumer()
        self.asked[number][1](result, consumer)
        return consumer


class Bench:
    def __init__(self, background: Background, **settings: Any) -> None:
        self.client = Client()
        self.clock = VirtualClock()
        self.background = background
        quick = {"wait": Backoff(0.001, 60.0), "patience_s": 60.0, "quick_s": 60.0, **settings}
        self.opener = Opener(self.client, background, self.clock, OpenSettings(**quick))
        self.opened: list[Any] = []
        self.given_up: list[str] = []

    def open(self, lane: str = "a") -> Opening:
        opening = Opening(lane, 100, self.opened.append, lambda: self.given_up.append(lane))
        self.opener.open(opening)
        return opening

    def settle(self) -> None:
        """Waits until the background has done what it was given so far."""
        done = threading.Event()
        self.background.do(done.set)
        assert done.wait(5.0)


@pytest.fixture
def background() -> Iterator[Background]:
    background = Background("test")
    yield background
    assert background.stop(5.0)


def test_a_few_at_a_time(background: Background) -> None:
    bench = Bench(background, at_once=2)
    for number in range(5):
        bench.open(str(number))
    bench.settle()
    assert [lane for lane, _ in bench.client.asked] == ["0", "1"]
    bench.client.answer(1)
    eventually(lambda: [lane for lane, _ in bench.client.asked] == ["0", "1", "2"])


def test_failures_are_tried_again_and_told_of(background: Background, caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(background)
    bench.open()
    with caplog.at_level(logging.WARNING):
        bench.client.answer(0, pulsar.Result.ConnectError)
        consumer = bench.client.answer(1)
        eventually(lambda: bench.opened == [consumer])
    assert "could not attach to the lane a" in caplog.text


def test_a_missing_lane_is_looked_for_for_a_while_without_a_word(
    background: Background, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(background, missing_s=30.0)
    bench.open()
    with caplog.at_level(logging.WARNING):
        bench.client.answer(0, MISSING)
        bench.settle()
        bench.clock.advance(30.0)
        bench.client.answer(1, MISSING)
        eventually(lambda: len(bench.client.asked) == 3)
        bench.clock.advance(0.1)
        bench.client.answer(2, MISSING)
        eventually(lambda: bench.given_up == ["a"])
    assert not caplog.text


def test_an_attempt_without_an_answer_gets_others_beside_it_and_one_consumer_is_kept(background: Background) -> None:
    bench = Bench(background, quick_s=0.001)
    opening = bench.open()
    eventually(lambda: len(bench.client.asked) == 5)
    bench.settle()
    assert opening.unanswered == 5
    kept, extra = bench.client.answer(1), bench.client.answer(0)
    eventually(lambda: extra.closed)
    bench.client.answer(2, pulsar.Result.Timeout)
    bench.settle()
    assert bench.opened == [kept]
    assert not kept.closed
    assert len(bench.client.asked) == 5


def test_what_is_no_longer_wanted_is_neither_opened_nor_tried_again(background: Background) -> None:
    bench = Bench(background)
    first, second = bench.open("a"), bench.open("b")
    bench.settle()
    first.over = second.over = True
    consumer = bench.client.answer(0)
    bench.client.answer(1, pulsar.Result.ConnectError)
    eventually(lambda: consumer.closed)
    bench.settle()
    assert not bench.opened
    assert len(bench.client.asked) == 2


def test_a_background_action_that_fails_does_not_stop_the_others(background: Background) -> None:
    done: list[str] = []

    def fail() -> None:
        raise ValueError

    background.do(lambda: done.append("later"), after_s=0.02)
    background.do(fail)
    background.do(lambda: done.append("now"))
    eventually(lambda: done == ["now", "later"])
