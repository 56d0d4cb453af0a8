"""Retries and moves: a lane is checked before it is sent to; a lane that stalls delays no other; every failure is
reported to the publisher."""

import queue
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pulsar
import pytest

from backends.pulsar import lane_publisher, publisher
from backends.pulsar.lane_publisher import LanePublisher, PublisherSettings
from backends.pulsar.publisher import LaneProducerSettings
from backends.system_clock import SystemClock
from dispatcher.model.errors import NotFound, Unreachable
from dispatcher.wire.envelope import Envelope, decode_envelope
from tests.actors import running
from tests.unit.backends.raw_client import Client
from tests.unit.consumers.envelopes import envelope

LANE = "persistent://t/tasks-01/moved"
OTHER = "persistent://t/tasks-02/moved"
TELL_S = 10


class Answers:
    """A `done` that says what it was called with."""

    def __init__(self) -> None:
        self._reported: queue.Queue[Exception | None] = queue.Queue()

    def __call__(self, error: Exception | None) -> None:
        self._reported.put(error)

    def next(self) -> Exception | None:
        return self._reported.get(timeout=TELL_S)

    def none_yet(self) -> bool:
        return self._reported.empty()


class Broker:
    """Lanes whose receipts come at once, except for those that stall: their receipts come when the test says so."""

    def __init__(self, still: set[str]) -> None:
        self.still = still
        self.broken: set[str] = set()
        self.stored: dict[str, list[int]] = {}
        self._owed: dict[str, list[Callable[[], None]]] = {}

    def producer(self, _client: object, topic: str, _settings: object) -> Any:
        return RawProducer(self, topic)

    def take(self, topic: str, body: bytes, receipt: Callable[[Any, Any], None] | None) -> None:
        if topic in self.broken:
            raise RuntimeError("the client does not want it")

        def store() -> None:
            self.stored.setdefault(topic, []).append(decode_envelope(body).sequence)
            if receipt is not None:
                receipt(pulsar.Result.Ok, None)

        if topic in self.still:
            self._owed.setdefault(topic, []).append(store)
        else:
            store()

    def go_on(self, topic: str) -> None:
        self.still.discard(topic)
        for store in self._owed.pop(topic, []):
            store()


class RawProducer:
    def __init__(self, broker: Broker, topic: str) -> None:
        self._broker = broker
        self._topic = topic
        self._receipts: list[Callable[[Any, Any], None]] = []

    def send_async(self, message: Any, receipt: Callable[[Any, Any], None] | None) -> None:
        if receipt is not None:
            self._receipts.append(receipt)
        self._broker.take(self._topic, message.data(), receipt)

    def close_async(self, _closed: object) -> None:
        """As the client does: what has no receipt fails."""
        for receipt in self._receipts:
            receipt(pulsar.Result.AlreadyClosed, None)


def envelopes(*sequences: int) -> list[Envelope]:
    return [envelope(sequence, task="moved", attempt=1) for sequence in sequences]


@contextmanager
def working(settings: PublisherSettings, create: Callable[[str], None] | None = None) -> Iterator[LanePublisher]:
    made = LanePublisher(Client(), SystemClock(), settings, create)
    with running(made.run):
        yield made
        assert made.stop(TELL_S)


@pytest.fixture(autouse=True)
def plain_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_publisher, "partitions_of", lambda _client, lane: [lane])


def broker_of(monkeypatch: pytest.MonkeyPatch, *still: str) -> Broker:
    broker = Broker(set(still))
    monkeypatch.setattr(publisher, "_create_producer", broker.producer)
    return broker


def narrow(stuck_s: float = 30.0) -> PublisherSettings:
    """Two envelopes under way at most, and then it waits for a receipt."""
    return PublisherSettings(stuck_s=stuck_s, producer=LaneProducerSettings(in_flight_messages=2))


# ---------------------------------------------------------------- a lane that stalls
def test_a_lane_that_stands_still_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    broker, still, good = broker_of(monkeypatch, LANE), Answers(), Answers()
    with working(narrow()) as lanes:
        for first in range(0, 10, 2):
            lanes.publish(LANE, envelopes(first, first + 1), still)
        lanes.publish(OTHER, envelopes(0, 1, 2), good)
        assert good.next() is None
        assert still.none_yet()
        broker.go_on(LANE)
        assert [still.next() for _ in range(5)] == [None] * 5
    assert broker.stored == {OTHER: [0, 1, 2], LANE: list(range(10))}


def test_who_waits_for_a_lane_without_receipts_is_told_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    broker, still = broker_of(monkeypatch, LANE), Answers()
    with working(narrow(stuck_s=0.05)) as lanes:
        for first in range(0, 6, 2):
            lanes.publish(LANE, envelopes(first, first + 1), still)
        assert all(isinstance(still.next(), Unreachable) for _ in range(3))
        broker.go_on(LANE)
        lanes.publish(LANE, envelopes(7), still)
        assert still.next() is None


def test_a_call_larger_than_what_may_be_under_way_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    broker, done = broker_of(monkeypatch), Answers()
    with working(narrow()) as lanes:
        lanes.publish(LANE, envelopes(*range(9)), done)
        assert done.next() is None
    assert broker.stored == {LANE: list(range(9))}


def test_what_is_published_after_the_stop_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    broker_of(monkeypatch)
    done = Answers()
    with working(narrow()) as lanes:
        pass
    lanes.publish(LANE, envelopes(1), done)
    assert isinstance(done.next(), Unreachable)


def test_a_lane_that_cannot_be_flushed_is_given_up_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    broker_of(monkeypatch, LANE)
    done, sent = Answers(), Answers()
    lanes = LanePublisher(Client(), SystemClock(), narrow())
    with running(lanes.run):
        lanes.publish(LANE, envelopes(1), done)
        lanes.publish(OTHER, envelopes(1), sent)
        assert sent.next() is None
        assert not lanes.stop(0.2)
    assert isinstance(done.next(), Unreachable)


def test_what_the_client_does_not_take_is_told_and_tried_with_another_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    broker, done = broker_of(monkeypatch), Answers()
    broker.broken = {LANE}
    with working(narrow()) as lanes:
        lanes.publish(LANE, envelopes(1), done)
        assert str(done.next()) == "the client does not want it"
        broker.broken.clear()
        lanes.publish(LANE, envelopes(1), done)
        assert done.next() is None


def test_a_receipt_that_is_not_taken_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broker_of(monkeypatch)
    done = Answers()

    def refuse(_: Exception | None) -> None:
        raise RuntimeError("not now")

    with working(narrow()) as lanes:
        lanes.publish(LANE, envelopes(1), refuse)
        lanes.publish(LANE, envelopes(2), done)
        assert done.next() is None
    assert f"A receipt from {LANE} could not be processed" in caplog.text


# ---------------------------------------------------------------- a lane that is not whole
def answer_of(monkeypatch: pytest.MonkeyPatch, create: Callable[[str], None], steps: list[str]) -> str:
    """Return the error that publishers get for a lane whose producer cannot be created, for an unforeseen reason."""

    def make_producer(*_: object) -> None:
        steps.append("producer")
        raise RuntimeError("who knows why")

    monkeypatch.setattr(lane_publisher, "LaneProducer", make_producer)
    reported = Answers()
    with working(PublisherSettings(), create) as lanes:
        lanes.publish(LANE, [], reported)
        return str(reported.next())


def test_what_is_missing_of_a_lane_is_created_before_its_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    assert answer_of(monkeypatch, steps.append, steps) == "who knows why"
    assert steps == [LANE, "producer"]


def test_a_lane_that_should_not_be_there_gets_no_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    def create(_: str) -> None:
        raise NotFound("Its task has ended.")

    steps: list[str] = []
    assert answer_of(monkeypatch, create, steps) == "Its task has ended."
    assert steps == []
