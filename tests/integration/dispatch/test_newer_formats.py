"""Envelopes of a later version: they are left to workers that can read them, and those before them are sent."""

from collections.abc import Iterator

import msgspec
import pulsar
import pytest

from consumers.lanes.newer import NewerSettings
from consumers.lanes.pulsar_lanes import LaneSettings
from dispatcher.retry import Backoff
from dispatcher.wire.envelope import ROUNDS_FORMAT, encode_envelope
from dispatcher.wire.lease import LaneKind
from tests.integration.lane_helpers import Dock, envelope, publish
from tests.integration.pulsar_helpers import consumer_of, eventually
from tests.records import lane_info

NEWER = msgspec.msgpack.encode([ROUNDS_FORMAT + 1, "a-task", {"fields": "of a later version"}])
SETTINGS = LaneSettings(newer=NewerSettings(away=Backoff(0.5, 1.0), finish_s=0.3, again_s=0.5))


@pytest.fixture
def dock(client: pulsar.Client) -> Iterator[Dock]:
    dock = Dock(client, SETTINGS)
    yield dock
    assert dock.lanes.stop(5.0)


def body(sequence: int) -> bytes:
    return encode_envelope(envelope(sequence))


def test_a_lane_of_one_task_is_left_to_newer_workers_behind_what_was_in_front(
    client: pulsar.Client, lane: str, dock: Dock
) -> None:
    for one in (body(0), body(1), NEWER, body(2)):
        publish(client, lane, [one])
    dock.attached(lane)
    taken = dock.take(2)
    assert [delivery.envelope.sequence for delivery in taken] == [0, 1]
    assert dock.drained(lane) == []
    assert dock.lanes.newer_lanes() == [lane]
    dock.lanes.ack(lane, taken)
    newer = consumer_of(client, lane)
    assert {newer.receive(5_000).data() for _ in range(2)} == {NEWER, body(2)}
    assert dock.letters.letters == []
    newer.close()


def test_a_lane_that_was_left_is_looked_at_again_and_drained_once_newer_workers_have_been_there(
    client: pulsar.Client, lane: str, dock: Dock
) -> None:
    for one in (NEWER, body(0)):
        publish(client, lane, [one])
    dock.attached(lane)
    for _ in range(2):
        assert dock.drained(dock.ready.get(timeout=5)) == []
    newer = consumer_of(client, lane)
    messages = [newer.receive(5_000) for _ in range(2)]
    newer.acknowledge(next(message for message in messages if message.data() == NEWER))
    newer.close()
    assert [delivery.envelope.sequence for delivery in dock.take(1)] == [0]
    eventually(lambda: dock.lanes.newer_lanes() == [], "forgotten")


def test_what_is_settled_only_after_the_time_is_over_does_not_end_the_lane(
    client: pulsar.Client, lane: str, dock: Dock
) -> None:
    for one in (body(0), NEWER, body(1)):
        publish(client, lane, [one])
    dock.attached(lane)
    taken = dock.take(1)
    eventually(lambda: not dock.lanes.newer_lanes(), "nobody looked in time")
    dock.lanes.ack(lane, taken)
    assert 1 in [delivery.envelope.sequence for delivery in dock.take(1)]


def test_without_newer_workers_what_stands_behind_is_sent_after_a_while_and_the_message_stays(
    client: pulsar.Client, lane: str, dock: Dock
) -> None:
    for one in (NEWER, body(0), body(1)):
        publish(client, lane, [one])
    dock.attached(lane)
    taken = dock.take(2)
    assert {delivery.envelope.sequence for delivery in taken} == {0, 1}
    dock.lanes.ack(lane, taken)
    assert dock.lanes.newer_lanes() == [lane]
    comes_to_a_consumer_of(client, lane, dock)
    assert dock.letters.letters == []


def test_in_a_lane_of_many_the_message_alone_is_refused_and_comes_to_another_worker(
    client: pulsar.Client, lane: str, dock: Dock
) -> None:
    for one in (body(0), NEWER, body(1), body(2)):
        publish(client, lane, [one])
    dock.lanes.attach(lane_info(lane, kind=LaneKind.SHARED, tier="low"), 2_000)
    taken = dock.take(3)
    assert [delivery.envelope.sequence for delivery in taken] == [0, 1, 2]
    dock.lanes.ack(lane, taken)
    assert dock.lanes.newer_lanes() == [lane]
    comes_to_a_consumer_of(client, lane, dock)


def comes_to_a_consumer_of(client: pulsar.Client, lane: str, dock: Dock) -> None:
    newer = consumer_of(client, lane)

    def comes() -> bool:
        dock.drained(lane)
        try:
            return bool(newer.receive(100).data() == NEWER)
        except pulsar.Timeout:
            return False

    eventually(comes, "delivered to the newer worker")
    newer.close()
