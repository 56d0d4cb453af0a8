"""How one lane is drained, in batches while more is there than is asked for, and how envelopes in a lane of many whose
channel this worker lacks are given back: others get them, unattempted."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import msgspec
import pulsar

from consumers.lanes.attachment import RETURN_AFTER_S, Attachment, AttachmentContext
from consumers.lanes.background import Background
from consumers.lanes.give_back import GiveBackSettings, MissingChannels
from consumers.lanes.opening import OK, Opener, Opening, batch_messages
from dispatcher.model.errors import Unreachable
from dispatcher.wire.envelope import Envelope, encode_envelope
from tests.unit.dispatch.consumers.envelopes import envelope
from tests.virtual_clock import VirtualClock

QUEUE = 40


class Message:
    """A raw message. Its id is the envelope's sequence."""

    def __init__(self, sequence: int, channel: str = "null", deliveries: int = 0) -> None:
        self._body = encode_envelope(msgspec.structs.replace(envelope(sequence), channel=channel))
        self._sequence, self._deliveries = sequence, deliveries

    def data(self) -> bytes:
        return self._body

    def message_id(self) -> int:
        return self._sequence

    def redelivery_count(self) -> int:
        return self._deliveries


class Consumer:
    """The client's raw consumer: a receive is answered at once if something is there."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.there = deque(messages)
        self.batches: list[int] = []
        self.armed: Callable[[Any, Any], None] | None = None
        self.closed = False
        self.given_back: list[int] = []
        self.acked: list[int] = []

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

    def negative_acknowledge(self, message_id: int) -> None:
        self.given_back.append(message_id)

    def acknowledge_async(self, message_id: int, _done: object) -> None:
        self.acked.append(message_id)


class Later:
    """Fake of the background's thread: keeps the jobs with their delays."""

    def __init__(self) -> None:
        self.due: list[tuple[float, Callable[[], None]]] = []

    def do(self, action: Callable[[], None], after_s: float = 0.0) -> None:
        self.due.append((after_s, action))

    def pass_time(self) -> None:
        due, self.due = self.due, []
        for _, action in due:
            action()


class Lane:
    """One lane, of a worker that has the channel null only."""

    def __init__(self, messages: Sequence[Message], **missing: Any) -> None:
        self.consumer, self.later, self.ready = Consumer(messages), Later(), list[str]()
        self.aside: list[int] = []
        self.room_aside = 0
        around = AttachmentContext(
            opener=cast("Opener", self),
            background=cast("Background", None),
            clock=VirtualClock(),
            ready=self.ready.append,
            undecodable=lambda *_: None,
            newer=lambda _lane: None,
            missing=MissingChannels(channels=frozenset({"null"}), **missing),
            move_to_side_lane=self._move_aside,
            returner=cast("Background", self.later),
        )
        self.attachment = Attachment("lane", QUEUE, around)
        self._opening.opened(self.consumer)

    def open(self, opening: Opening) -> None:
        self._opening = opening

    def _move_aside(self, _attachment: Attachment, _message: Message, moved: Envelope) -> bool:
        if len(self.aside) >= self.room_aside:
            return False
        self.aside.append(moved.sequence)
        return True

    def drained(self) -> list[int]:
        return self.drain(1_000)[0]

    def drain(self, limit: int) -> tuple[list[int], bool]:
        """The sequences of what it gives, and whether it is empty."""
        deliveries, empty = self.attachment.drain(limit)
        return [delivery.envelope.sequence for delivery in deliveries], empty


def lane_of(count: int) -> Lane:
    return Lane([Message(sequence) for sequence in range(count)])


def test_an_envelope_of_a_channel_that_the_worker_lacks_is_given_back_and_the_others_are_sent() -> None:
    lane = Lane([Message(0, "null"), Message(1, "http"), Message(2, "null")])
    assert lane.drained() == [0, 2]
    assert lane.attachment.unacked == 2, "only what is sent counts as given out"
    assert lane.consumer.given_back == []
    lane.later.pass_time()
    assert lane.consumer.given_back == [1]
    assert lane.consumer.acked == []


def test_what_the_engine_cannot_hold_is_given_back_after_a_while_and_bounded_until_then() -> None:
    lane = Lane([Message(number, "null") for number in range(5)])
    deliveries, _ = lane.attachment.drain(1_000)
    lane.attachment.return_later([delivery.handle for delivery in deliveries[1:4]])
    assert (lane.attachment.unacked, lane.attachment.returning) == (2, 3)
    assert lane.consumer.given_back == []
    assert [delay_s for delay_s, _ in lane.later.due] == [RETURN_AFTER_S]
    lane.ready.clear()
    lane.later.pass_time()
    assert lane.consumer.given_back == [1, 2, 3]
    assert (lane.attachment.returning, lane.ready) == (0, ["lane"])


def test_the_delay_doubles_each_time_it_comes_again_from_a_second_to_a_minute() -> None:
    lane = Lane([Message(number, "http", number) for number in range(9)])
    assert lane.drained() == []
    assert [delay_s for delay_s, _ in lane.later.due] == [1, 2, 4, 8, 16, 32, 60]
    assert GiveBackSettings().delay_s(1_000_000) == 60


def test_an_unload_that_resets_the_count_of_deliveries_only_starts_the_delays_again() -> None:
    """The broker keeps that count in memory."""
    given_back = []
    for deliveries, delay_s in ((0, 1), (1, 2), (2, 4), (0, 1), (1, 2), (2, 4), (3, 8)):
        lane = Lane([Message(0, "http", deliveries)], elsewhere=lambda _: True)
        lane.room_aside = 1
        assert lane.drained() == []
        assert (lane.aside, lane.consumer.acked) == ([0] if deliveries == 3 else [], [])
        if deliveries < 3:
            assert [after_s for after_s, _ in lane.later.due] == [delay_s]
            lane.later.pass_time()
            given_back += lane.consumer.given_back
    assert given_back == [0] * 6


def test_no_more_than_the_bound_wait_and_the_lane_goes_on_when_they_have_gone() -> None:
    messages = [Message(number, "http") for number in range(5)]
    lane = Lane([*messages, Message(5, "null")], settings=GiveBackSettings(max_waiting=3))
    assert lane.drained() == []
    assert sum(len(action.args[0]) for _, action in lane.later.due) == 3  # type: ignore[attr-defined, misc]
    lane.ready.clear()
    assert lane.drained() == [], "there is still no room"
    lane.later.pass_time()
    assert lane.ready == ["lane"]
    assert lane.drained() == [5]
    lane.later.pass_time()
    assert sorted(lane.consumer.given_back) == [0, 1, 2, 3, 4]


def test_what_is_beyond_the_bound_is_moved_aside_so_that_the_lane_goes_on() -> None:
    messages = [Message(number, "http") for number in range(5)]
    lane = Lane([*messages, Message(5, "null")], settings=GiveBackSettings(max_waiting=3))
    lane.room_aside = 2
    assert lane.drained() == [5]
    assert lane.aside == [3, 4]


def test_what_came_several_times_is_moved_aside_if_another_worker_has_its_channel() -> None:
    """Where few workers have it, another try would mostly be another worker that lacks it."""
    for there in (True, False):
        messages = [Message(number, "http", number) for number in range(6)]
        lane = Lane(messages, elsewhere=lambda channel, there=there: there and channel == "http")
        lane.room_aside = 2
        assert lane.drained() == []
        assert lane.aside == ([3, 4] if there else [])
        lane.later.pass_time()
        assert lane.consumer.given_back == ([0, 1, 2, 5] if there else [0, 1, 2, 3, 4, 5])


def test_what_nobody_takes_for_long_is_done_with_once_its_task_has_ended() -> None:
    asked: list[Sequence[str]] = []

    def ended(tasks: Sequence[str]) -> Mapping[str, bool]:
        asked.append(tasks)
        return dict.fromkeys(tasks, True)

    lane = Lane([Message(0, "http"), Message(1, "http", deliveries=6)], ended=ended)
    lane.drained()
    lane.later.pass_time()
    assert lane.consumer.given_back == [0]
    assert lane.consumer.acked == [1]
    assert asked == [[envelope(0).task]]


def test_while_the_registry_does_not_answer_nothing_is_thrown_away() -> None:
    def ended(_tasks: Sequence[str]) -> Mapping[str, bool]:
        raise Unreachable("Redis is gone.")

    lane = Lane([Message(0, "http", deliveries=6)], ended=ended)
    lane.drained()
    lane.later.pass_time()
    assert (lane.consumer.given_back, lane.consumer.acked) == ([0], [])


# ------------------------------------------------------------------ batches
def test_a_standing_backlog_is_taken_in_batches_and_in_order() -> None:
    lane = lane_of(60)
    assert lane.drain(20) == (list(range(20)), False)
    assert lane.consumer.batches == []
    assert lane.drain(25) == (list(range(20, 45)), False)
    assert lane.consumer.batches == [10, 10, 10]
    assert lane.drain(100) == (list(range(45, 60)), True)
    assert lane.consumer.batches == [10, 10, 10, 10, 0]


def test_small_drains_that_always_find_enough_are_taken_in_batches_too() -> None:
    lane = lane_of(40)
    assert [lane.drain(4)[1] for _ in range(3)] == [False, False, False]
    assert lane.consumer.batches == []
    assert lane.drain(4) == (list(range(12, 16)), False)
    assert lane.consumer.batches == [10]


def test_a_lane_that_ran_dry_is_armed_once_and_tells_of_the_next_message() -> None:
    lane = lane_of(30)
    lane.drain(20)
    assert lane.drain(100) == (list(range(20, 30)), True)
    lane.ready.clear()
    assert lane.drain(100) == ([], True)
    lane.consumer.arrive(30)
    assert lane.ready == ["lane"]
    assert lane.drain(100) == ([30], True)


def test_a_consumer_that_is_closed_under_a_batch_costs_nothing_but_the_batch() -> None:
    lane = lane_of(30)
    lane.drain(20)
    lane.consumer.closed = True
    assert lane.drain(5) == (list(range(20, 25)), False)


def test_less_than_a_batch_is_never_waited_for() -> None:
    lane = lane_of(9)
    assert lane.drain(4) == ([0, 1, 2, 3], False)
    assert lane.drain(100) == ([4, 5, 6, 7, 8], True)
    assert lane.consumer.batches == []
