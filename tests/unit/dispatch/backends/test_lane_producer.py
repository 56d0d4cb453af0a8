"""Bodies without a receipt are published again by another producer, or fail together."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random
from threading import Event
from typing import Any

import pulsar
import pytest

from backends.pulsar import record_producer
from backends.pulsar.publisher import LaneProducer, LaneProducerSettings
from backends.pulsar.record_producer import CHECKS
from dispatcher.model.errors import FairlaneError, NotFound, Unreachable
from dispatcher.retry import Backoff
from tests.unit.dispatch.backends.raw_client import Checks, Client, SilentProducer
from tests.unit.dispatch.consumers.fakes import eventually

Answers = list[Exception | None]
LANE = "persistent://t/tasks-00/a-task"
LARGE = b"x" * (64 << 10)
"""Large enough for a receipt of its own."""


class SilentClient:
    """Its last producer is the one in use. refuses: raised instead of making one."""

    def __init__(self) -> None:
        self.made: list[SilentProducer] = []
        self.refuses: Exception | None = None
        self.checks = Checks()

    def create_producer(self, *_: object, **__: object) -> "SilentClient":
        if self.refuses is not None:
            raise self.refuses
        self.made.append(SilentProducer())
        return self

    @property
    def _producer(self) -> "SilentProducer":
        return self.made[-1]

    def has_again(self, producers: int, bodies: list[bytes]) -> bool:
        """Return whether this is the number of producers, and the last one was sent these bodies."""
        return len(self.made) == producers and self.made[-1].bodies == bodies


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> SilentClient:
    monkeypatch.setattr(record_producer, "_ATTEMPTS", Backoff(0.001, 0.002))
    return SilentClient()


@pytest.fixture
def answers() -> Answers:
    return []


@pytest.mark.parametrize("first", [b"a", LARGE])
def test_what_gets_no_receipt_is_published_again_in_order_and_answered_once(
    client: Any, answers: Answers, first: bytes
) -> None:
    lane = LaneProducer(client, LANE)
    lane.send([first, b"b"], answers.append)
    lane.send([b"c"], answers.append)
    client.checks.make(CHECKS)
    eventually(lambda: client.has_again(2, [first, b"b", b"c"]))
    assert client.made[0].closed
    assert (answers, lane.in_flight) == ([], (3, len(first) + 2))
    client.made[1].answer(pulsar.Result.Ok)
    assert (answers, lane.in_flight) == ([None, None], (0, 0))
    lane.send([b"d"], answers.append)
    assert client.made[1].bodies[-1] == b"d"


def test_a_receipt_that_comes_after_the_replacement_does_not_count(client: Any, answers: Answers) -> None:
    lane = LaneProducer(client, LANE)
    lane.send([b"a"], answers.append)
    lane.send([b"b"], answers.append)
    late = client.made[0].receipts.pop()
    assert late is not None
    client.checks.make(CHECKS)
    eventually(lambda: client.has_again(2, [b"a", b"b"]))
    late(pulsar.Result.Ok, None)
    assert answers == []
    client.made[1].answer(pulsar.Result.Ok)
    assert answers == [None, None]


def test_while_there_is_no_producer_nothing_is_taken_and_senders_wait(client: Any, answers: Answers) -> None:
    lane = LaneProducer(client, LANE, LaneProducerSettings(stall_s=0.05))
    lane.send([b"a"], answers.append)
    client.refuses = pulsar.Timeout("no answer")
    client.checks.make(CHECKS)
    assert lane.offer([b"b"], answers.append) is False
    with pytest.raises(Unreachable, match="confirmed nothing"):
        lane.send([b"b"], answers.append)
    client.refuses = None
    eventually(lambda: client.has_again(2, [b"a"]))
    client.made[1].answer(pulsar.Result.Ok)
    assert answers == [None]


def test_a_lane_that_is_gone_fails_everything_at_once(client: Any, answers: Answers) -> None:
    lane = LaneProducer(client, LANE)
    lane.send([b"a"], answers.append)
    lane.send([b"b"], answers.append)
    client.refuses = pulsar.TopicNotFound("gone")
    client.checks.make(CHECKS)
    eventually(lambda: len(answers) == 2)
    assert [type(error) for error in answers] == [NotFound, NotFound]
    with pytest.raises(NotFound):
        lane.send([b"c"], answers.append)
    with pytest.raises(NotFound):
        lane.flush(1)


def test_closing_fails_what_waits_for_another_producer(client: Any, answers: Answers) -> None:
    lane = LaneProducer(client, LANE)
    lane.send([b"a"], answers.append)
    client.refuses = pulsar.Timeout("no answer")
    client.checks.make(CHECKS)
    lane.close()
    assert isinstance(answers[0], FairlaneError)
    assert lane.in_flight == (0, 0)
    assert not client.checks


def test_a_slow_lane_is_not_published_to_again_as_long_as_receipts_come(client: Any, answers: Answers) -> None:
    """Otherwise all that waits would be sent once more, and make it slower still."""
    lane = LaneProducer(client, LANE)
    for _ in range(5 * CHECKS):
        lane.send([b"a"], answers.append)
    for _ in range(5 * CHECKS):
        client.checks.make(CHECKS - 1)
        client.made[0].answer(pulsar.Result.Ok, 1)
        client.checks.make()
    assert len(answers) == 5 * CHECKS
    client.checks.make(5 * CHECKS)
    assert len(client.made) == 1


def test_while_nothing_is_stored_each_replacement_waits_twice_as_long(client: Any, answers: Answers) -> None:
    lane = LaneProducer(client, LANE)
    lane.send([b"a"], answers.append)
    for times in (1, 2, 4):
        made = len(client.made)
        client.checks.make(times * CHECKS - 1)
        assert len(client.made) == made
        client.checks.make()
        eventually(partial(client.has_again, made + 1, [b"a"]))
    client.made[-1].answer(pulsar.Result.Ok)
    assert answers == [None]


class LossyClient(SilentClient):
    """Its producers give receipts at once, until one of them loses what it is sent; some cannot be created."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._rng = Random(seed)

    def create_producer(self, *_: object, **__: object) -> "SilentClient":
        if self.made and self._rng.random() < 0.3:
            raise pulsar.Timeout("no answer")
        self.made.append(LossyProducer(self._rng.randrange(200)))
        return self


class LossyProducer(SilentProducer):
    def __init__(self, good_for: int) -> None:
        super().__init__()
        self._good_for = good_for

    def send_async(self, message: Any, receipt: Callable[[Any, Any], None] | None) -> None:
        super().send_async(message, receipt)
        if len(self.bodies) <= self._good_for:
            self.answer(pulsar.Result.Ok)


@pytest.mark.parametrize("seed", range(3))
def test_senders_at_once_get_each_answer_once_however_often_the_producer_is_replaced(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(record_producer, "_ATTEMPTS", Backoff(0.001, 0.002))
    client: Any = LossyClient(seed)
    lane, answers, over = (
        LaneProducer(client, LANE, LaneProducerSettings(in_flight_messages=30)),
        Counter[Any](),
        Event(),
    )

    def note(call: tuple[int, int], error: Exception | None) -> None:
        answers[call, error] += 1

    def send(sender: int) -> None:
        for number in range(50):
            bodies = [f"{sender} {number} {body}".encode() for body in range((1, 3, 120)[number % 3])]
            lane.send(bodies, partial(note, (sender, number)))

    def check() -> None:
        while not over.wait(0.001):
            client.checks.make()

    with ThreadPoolExecutor(4) as threads:
        threads.submit(check)
        for sender in [threads.submit(send, number) for number in range(3)]:
            sender.result()
        lane.flush(30)
        over.set()
    assert answers == Counter({((sender, number), None): 1 for sender in range(3) for number in range(50)})
    assert lane.in_flight == (0, 0)
    assert len(client.made) > 3


def test_any_other_failure_is_final(answers: Answers) -> None:
    client: Any = Client(pulsar.Result.MessageTooBig)
    lane = LaneProducer(client, LANE)
    lane.send([b"a"], answers.append)
    assert isinstance(answers[0], FairlaneError)
    with pytest.raises(FairlaneError):
        lane.send([b"b"], answers.append)
