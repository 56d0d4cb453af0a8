"""How one lane is drained: message by message, or in batches while more is there than is asked for."""

from collections import deque
from collections.abc import Callable
from typing import Any, cast

import pulsar

from consumers.lanes.attachment import Attachment, Surroundings
from consumers.lanes.background import Background
from consumers.lanes.give_back import MissingChannels
from consumers.lanes.opening import OK, Opener, Opening, batch_messages
from dispatcher.clock import VirtualClock
from dispatcher.wire.envelope import encode_envelope
from tests.unit.consumers.envelopes import envelope

QUEUE = 40


class Message:
    def __init__(self, sequence: int) -> None:
        self._body = encode_envelope(envelope(sequence))

    def data(self) -> bytes:
        return self._body


class Consumer:
    """The client's raw consumer: a receive is answered at once if something is there."""

    def __init__(self, count: int) -> None:
        self.there = deque(Message(sequence) for sequence in range(count))
        self.batches: list[int] = []
        self.armed: Callable[[Any, Any], None] | None = None
        self.closed = False

    def receive_async(self, arrived: Callable[[Any, Any], None]) -> None:
        assert self.armed is None, "armed twice"
        if self.there:
            arrived(OK, self.there.popleft())
        else:
            self.armed = arrived

    def batch_receive(self) -> list[Message]:
        if self.closed:
            raise pulsar.AlreadyClosed
        batch = [self.there.popleft() for _ in range(min(batch_messages(QUEUE), len(self.there)))]
        self.batches.append(len(batch))
        return batch

    def arrive(self, sequence: int) -> None:
        armed, self.armed = self.armed, None
        assert armed is not None
        armed(OK, Message(sequence))


class OpenAtOnce:
    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def open(self, opening: Opening) -> None:
        self.opening = opening

    def now(self) -> None:
        self.opening.opened(self._consumer)


def attached(consumer: Consumer) -> tuple[Attachment, list[str]]:
    told: list[str] = []
    opener = OpenAtOnce(consumer)
    around = Surroundings(
        cast("Opener", opener),
        cast("Background", None),
        VirtualClock(),
        told.append,
        lambda *_: None,
        lambda _lane: None,
        MissingChannels(),
        lambda *_: False,
        cast("Background", None),
    )
    attachment = Attachment("lane", QUEUE, around)
    opener.now()
    return attachment, told


def drained(attachment: Attachment, limit: int) -> tuple[list[int], bool]:
    deliveries, empty = attachment.drain(limit)
    return [delivery.envelope.sequence for delivery in deliveries], empty


def test_a_standing_backlog_is_taken_in_batches_and_in_order() -> None:
    consumer = Consumer(60)
    attachment, _ = attached(consumer)
    assert drained(attachment, 20) == (list(range(20)), False)
    assert consumer.batches == []
    assert drained(attachment, 25) == (list(range(20, 45)), False)
    assert consumer.batches == [10, 10, 10]
    assert drained(attachment, 100) == (list(range(45, 60)), True)
    assert consumer.batches == [10, 10, 10, 10, 0]


def test_small_drains_that_always_find_enough_are_taken_in_batches_too() -> None:
    consumer = Consumer(40)
    attachment, _ = attached(consumer)
    assert [drained(attachment, 4)[1] for _ in range(3)] == [False, False, False]
    assert consumer.batches == []
    assert drained(attachment, 4) == (list(range(12, 16)), False)
    assert consumer.batches == [10]


def test_a_lane_that_ran_dry_is_armed_once_and_tells_of_the_next_message() -> None:
    consumer = Consumer(30)
    attachment, told = attached(consumer)
    drained(attachment, 20)
    assert drained(attachment, 100) == (list(range(20, 30)), True)
    told.clear()
    assert drained(attachment, 100) == ([], True)
    consumer.arrive(30)
    assert told == ["lane"]
    assert drained(attachment, 100) == ([30], True)


def test_a_consumer_that_is_closed_under_a_batch_costs_nothing_but_the_batch() -> None:
    consumer = Consumer(30)
    attachment, _ = attached(consumer)
    drained(attachment, 20)
    consumer.closed = True
    assert drained(attachment, 5) == (list(range(20, 25)), False)


def test_less_than_a_batch_is_never_waited_for() -> None:
    consumer = Consumer(9)
    attachment, _ = attached(consumer)
    assert drained(attachment, 4) == ([0, 1, 2, 3], False)
    assert drained(attachment, 100) == ([4, 5, 6, 7, 8], True)
    assert consumer.batches == []
