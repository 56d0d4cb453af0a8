"""Retries and moves: a lane is checked before it is sent to; a lane that stalls delays no other; every failure is
reported to the publisher."""

import queue
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pulsar
import pytest
from msgspec.structs import replace

from backends.pulsar import lane_publisher
from backends.pulsar.lane_publisher import LanePublisher, PublisherSettings
from backends.pulsar.publisher import LaneProducerSettings
from backends.system_clock import SystemClock
from dispatcher.model.errors import NotFound, Unreachable
from dispatcher.wire.envelope import Envelope, decode_envelope
from tests.actors import running
from tests.unit.dispatch.backends.raw_client import Checks, SilentProducer
from tests.unit.dispatch.consumers.envelopes import envelope
from tests.unit.dispatch.test_nesting import in_lists

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
    """A client of lanes whose receipts come at once, except for those that stall: theirs come when the test says so."""

    def __init__(self, *still: str) -> None:
        self.still = set(still)
        self.broken: set[str] = set()
        self.checks = Checks()
        self._producers: defaultdict[str, list[RawProducer]] = defaultdict(list)

    def create_producer(self, topic: str, **_: object) -> Any:
        self._producers[topic].append(RawProducer(self, topic))
        return SimpleNamespace(_producer=self._producers[topic][-1])

    def go_on(self, topic: str) -> None:
        self.still.discard(topic)
        for producer in self._producers[topic]:
            producer.answer(pulsar.Result.Ok)

    @property
    def stored(self) -> dict[str, list[int]]:
        """The sequences in each lane."""
        return {
            topic: [decode_envelope(body).sequence for producer in producers for body in producer.bodies]
            for topic, producers in self._producers.items()
        }


class RawProducer(SilentProducer):
    def __init__(self, broker: Broker, topic: str) -> None:
        super().__init__()
        self._broker = broker
        self._topic = topic

    def send_async(self, message: Any, receipt: Callable[[Any, Any], None] | None) -> None:
        if self._topic in self._broker.broken:
            raise RuntimeError("the client does not want it")
        super().send_async(message, receipt)
        if self._topic not in self._broker.still:
            self.answer(pulsar.Result.Ok)


def envelopes(*sequences: int) -> list[Envelope]:
    return [envelope(sequence, task="moved") for sequence in sequences]


@contextmanager
def working(
    client: Any, settings: PublisherSettings, create: Callable[[str], None] | None = None
) -> Iterator[LanePublisher]:
    made = LanePublisher(client, SystemClock(), settings, create)
    with running(made.run):
        yield made
        assert made.stop(TELL_S)


@pytest.fixture(autouse=True)
def plain_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_publisher, "partitions_of", lambda _client, lane: [lane])


def narrow(stuck_s: float = 30.0) -> PublisherSettings:
    """Two envelopes under way at most, and then it waits for a receipt."""
    return PublisherSettings(stuck_s=stuck_s, producer=LaneProducerSettings(in_flight_messages=2))


# ---------------------------------------------------------------- envelopes that cannot be encoded
def test_a_call_that_cannot_be_encoded_fails_alone() -> None:
    broker, good = Broker(), Answers()
    bad, later = Answers(), Answers()
    with working(broker, narrow()) as lanes:
        lanes.publish(LANE, envelopes(0), good)
        lanes.publish(LANE, [replace(envelope(1, task="moved"), variables=[{"a": in_lists(2_000)}])], bad)
        lanes.publish(LANE, envelopes(2), later)
        assert (good.next(), later.next()) == (None, None)
        assert isinstance(bad.next(), RecursionError)
    assert broker.stored == {LANE: [0, 2]}


# ---------------------------------------------------------------- a lane that stalls
def test_a_lane_that_stands_still_holds_up_no_other() -> None:
    broker, still, good = Broker(LANE), Answers(), Answers()
    with working(broker, narrow()) as lanes:
        for first in range(0, 10, 2):
            lanes.publish(LANE, envelopes(first, first + 1), still)
        lanes.publish(OTHER, envelopes(0, 1, 2), good)
        assert good.next() is None
        assert still.none_yet()
        broker.go_on(LANE)
        assert [still.next() for _ in range(5)] == [None] * 5
    assert broker.stored == {OTHER: [0, 1, 2], LANE: list(range(10))}


def test_who_waits_for_a_lane_without_receipts_is_told_after_a_while() -> None:
    broker, still = Broker(LANE), Answers()
    with working(broker, narrow(stuck_s=0.05)) as lanes:
        for first in range(0, 6, 2):
            lanes.publish(LANE, envelopes(first, first + 1), still)
        assert all(isinstance(still.next(), Unreachable) for _ in range(3))
        broker.go_on(LANE)
        lanes.publish(LANE, envelopes(7), still)
        assert still.next() is None


def test_a_call_larger_than_what_may_be_under_way_is_stored() -> None:
    broker, done = Broker(), Answers()
    with working(broker, narrow()) as lanes:
        lanes.publish(LANE, envelopes(*range(9)), done)
        assert done.next() is None
    assert broker.stored == {LANE: list(range(9))}


def test_what_is_published_after_the_stop_is_refused() -> None:
    done = Answers()
    with working(Broker(), narrow()) as lanes:
        pass
    lanes.publish(LANE, envelopes(1), done)
    assert isinstance(done.next(), Unreachable)


def test_a_lane_that_cannot_be_flushed_is_given_up_at_the_deadline() -> None:
    client: Any = Broker(LANE)
    done, sent = Answers(), Answers()
    lanes = LanePublisher(client, SystemClock(), narrow())
    with running(lanes.run):
        lanes.publish(LANE, envelopes(1), done)
        lanes.publish(OTHER, envelopes(1), sent)
        assert sent.next() is None
        assert not lanes.stop(0.2)
    assert isinstance(done.next(), Unreachable)


def test_what_the_client_does_not_take_is_told_and_tried_with_another_producer() -> None:
    broker, done = Broker(), Answers()
    broker.broken = {LANE}
    with working(broker, narrow()) as lanes:
        lanes.publish(LANE, envelopes(1), done)
        assert str(done.next()) == "the client does not want it"
        broker.broken.clear()
        lanes.publish(LANE, envelopes(1), done)
        assert done.next() is None


def test_a_receipt_that_is_not_taken_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    done = Answers()

    def refuse(_: Exception | None) -> None:
        raise RuntimeError("not now")

    with working(Broker(), narrow()) as lanes:
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
    with working(Broker(), PublisherSettings(), create) as lanes:
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
