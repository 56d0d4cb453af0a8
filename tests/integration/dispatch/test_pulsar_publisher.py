"""Envelopes into lanes: order, confirmation, bounds and failures."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise

import pulsar
import pytest

from backends.pulsar.admin import PulsarAdmin
from backends.pulsar.lane_publisher import LanePublisher, PublisherSettings
from backends.pulsar.publisher import LaneProducer, LaneProducerSettings
from backends.system_clock import SystemClock
from dispatcher.model.errors import FairlaneError, InvalidInput, NotFound, Unreachable
from dispatcher.model.tier import Tier
from dispatcher.wire.envelope import MAX_ENVELOPE_BYTES, Envelope, decode_envelope
from dispatcher.wire.topics import Topics
from tests.actors import running
from tests.integration.pulsar_helpers import Answers, Tenant, bodies_in, eventually, is_empty
from tests.unit.dispatch.consumers.envelopes import envelope


def numbered(count: int, size: int = 20, start: int = 0) -> list[bytes]:
    return [b"%010d" % number + b"." * (size - 10) for number in range(start, start + count)]


@pytest.mark.parametrize(("count", "size"), [(2_500, 150), (60, 33_000), (3, 1_500_000)])
def test_all_arrive_in_order_and_each_call_is_confirmed_once(
    client: pulsar.Client, lane: str, count: int, size: int
) -> None:
    producer, done = LaneProducer(client, lane), Answers()
    bodies = numbered(count, size)
    cuts = [0, 1, count // 3, count // 3, count]
    for start, end in pairwise(cuts):
        producer.send(bodies[start:end], done)
    producer.flush(20)
    assert done.wait(4) == [None] * 4
    assert producer.in_flight == (0, 0)
    assert bodies_in(client, lane, count) == bodies
    assert is_empty(client, lane)


def test_senders_in_many_threads_keep_each_their_order(client: pulsar.Client, lane: str) -> None:
    producer, done = LaneProducer(client, lane), Answers()

    def send(sender: int) -> None:
        for start in range(0, 300, 30):
            producer.send(numbered(30, start=1_000 * sender + start), done)

    with ThreadPoolExecutor(4) as senders:
        list(senders.map(send, range(4)))
    producer.flush(20)
    assert done.wait(40) == [None] * 40
    received = [int(body[:10]) for body in bodies_in(client, lane, 1_200)]
    for sender in range(4):
        assert [n for n in received if n // 1_000 == sender] == list(range(1_000 * sender, 1_000 * sender + 300))


def test_what_is_unconfirmed_stays_within_its_bound(client: pulsar.Client, lane: str) -> None:
    producer = LaneProducer(client, lane, LaneProducerSettings(in_flight_messages=250, in_flight_bytes=4_000))
    seen: list[tuple[int, int]] = []
    for start in range(0, 5_000, 50):
        producer.send(numbered(50, start=start), lambda _error: None)
        seen.append(producer.in_flight)
    producer.flush(20)
    assert max(messages for messages, _ in seen) <= 250
    assert max(size for _, size in seen) <= 4_000
    assert [int(body[:10]) for body in bodies_in(client, lane, 5_000)] == list(range(5_000))


def test_a_body_that_is_too_big_is_refused_before_anything_is_sent(client: pulsar.Client, lane: str) -> None:
    producer = LaneProducer(client, lane)
    with pytest.raises(InvalidInput):
        producer.send([b"small", b"x" * (MAX_ENVELOPE_BYTES + 1)], lambda _error: None)
    producer.send([b"after"], lambda _error: None)
    producer.flush(20)
    assert bodies_in(client, lane, 1) == [b"after"]
    assert is_empty(client, lane)


def test_a_lane_that_goes_away_is_an_error_not_a_loss_in_silence(
    client: pulsar.Client, admin: PulsarAdmin, lane: str
) -> None:
    producer, done = LaneProducer(client, lane, LaneProducerSettings(in_flight_messages=10, stall_s=1.0)), Answers()
    assert admin.delete_topic(lane, force=True)
    producer.send(numbered(10), done)
    with pytest.raises(Unreachable, match="confirmed nothing"):
        producer.send(numbered(10), done)
    with pytest.raises(Unreachable, match="confirmed nothing"):
        producer.flush(0.1)
    producer.close()
    (error,) = done.wait(1)
    assert isinstance(error, FairlaneError)
    with pytest.raises(Unreachable):
        producer.flush(0.1)


# ---------------------------------------------------------------- many lanes
def envelopes(count: int, task: str = "a-task") -> list[Envelope]:
    return [envelope(number, [f"target-{number}"], task=task, channel="null") for number in range(count)]


@pytest.fixture
def publisher(client: pulsar.Client) -> Iterator[LanePublisher]:
    with publishing(client, stuck_s=60.0) as publisher:
        yield publisher


@contextmanager
def publishing(client: pulsar.Client, stuck_s: float) -> Iterator[LanePublisher]:
    publisher = LanePublisher(client, SystemClock(), PublisherSettings(max_lanes=3, idle_s=0.5, stuck_s=stuck_s))
    with running(publisher.run):
        yield publisher
        publisher.stop(10)


def test_a_publisher_serves_more_lanes_than_it_keeps_producers(tenant: Tenant, publisher: LanePublisher) -> None:
    lanes = [tenant.names.retry_lane(Tier.HIGH, step) for step in (1, 5, 30, 120, 600)]
    done = Answers()
    for _ in range(3):
        for lane in lanes:
            publisher.publish(lane, envelopes(7), done)
    assert done.wait(15) == [None] * 15
    for lane in lanes:
        received = [decode_envelope(body) for body in bodies_in(tenant.client, lane, 21)]
        assert received == envelopes(7) * 3


def test_a_missing_lane_is_created_if_somebody_says_how(tenant: Tenant) -> None:
    wanted, ended = tenant.names.own_lane("moved"), tenant.names.own_lane("ended")

    def create(topic: str) -> None:
        if topic == ended:
            raise NotFound("Its task has ended.")
        tenant.admin.create_lane(topic)

    publisher, done = LanePublisher(tenant.client, SystemClock(), create=create), Answers()
    with running(publisher.run):
        publisher.publish(wanted, envelopes(2), done)
        assert done.wait(1) == [None]
        assert len(bodies_in(tenant.client, wanted, 2)) == 2
        publisher.publish(ended, envelopes(1), done)
        assert isinstance(done.wait(2)[1], NotFound)
        assert publisher.stop(5)


def test_a_lane_that_somebody_made_half_of_loses_nothing(tenant: Tenant) -> None:
    """Its topic was created and its subscription not: such a topic drops what it is sent."""
    lane = tenant.names.own_lane("half-made")
    tenant.admin.create_topic(lane)
    publisher, done = LanePublisher(tenant.client, SystemClock(), create=tenant.admin.create_lane), Answers()
    with running(publisher.run):
        publisher.publish(lane, envelopes(2), done)
        assert done.wait(1) == [None]
        tenant.admin.unload(lane)
        assert len(bodies_in(tenant.client, lane, 2)) == 2
        assert publisher.stop(5)


def test_an_unused_producer_lets_its_lane_be_deleted(admin: PulsarAdmin, lane: str, publisher: LanePublisher) -> None:
    done = Answers()
    publisher.publish(lane, envelopes(1), done)
    assert done.wait(1) == [None]
    eventually(lambda: admin.delete_topic(lane), "the lane can be deleted")


def test_failures_are_told_and_do_not_stop_the_others(tenant: Tenant, lane: str) -> None:
    missing, stuck, good = Answers(), Answers(), Answers()
    with publishing(tenant.client, stuck_s=6.0) as publisher:
        publisher.publish(tenant.names.own_lane("never-made"), envelopes(2), missing)
        publisher.publish(lane, envelopes(1), good)
        assert good.wait(1) == [None]
        assert isinstance(missing.wait(1)[0], NotFound)

        assert tenant.admin.delete_topic(lane, force=True)  # the task has ended, and a producer is still there
        publisher.publish(lane, envelopes(1), stuck)
        publisher.publish(tenant.names.shared_lane(0), envelopes(1), good)
        assert good.wait(2) == [None, None]
        assert isinstance(stuck.wait(1)[0], FairlaneError)


def test_stopping_waits_for_what_was_published(client: pulsar.Client, names: Topics, publisher: LanePublisher) -> None:
    done = Answers()
    publisher.publish(names.shared_lane(0), envelopes(500), done)
    assert publisher.stop(20)
    assert done.errors == [None]
    publisher.publish(names.shared_lane(0), envelopes(1), done)
    assert isinstance(done.wait(2)[1], Unreachable)
