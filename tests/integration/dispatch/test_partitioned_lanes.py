"""Lanes whose topic has partitions: made, filled, drained, moved to, delivered from and cleared away."""

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pulsar
import pytest

from backends.pulsar.admin import PulsarAdmin
from backends.pulsar.lane_publisher import LanePublisher
from backends.settings import ProducerOptions
from backends.system_clock import SystemClock
from dispatcher.wire.envelope import encode_envelope
from dispatcher.wire.topics import SUBSCRIPTION, Topics, topics_of_lane
from fairlane import PushClient, PushTask, Settings
from producers.publish.lanes import open_producers
from producers.publish.router import Router, RouterSettings
from producers.publish.tuning import ProducerSettings
from tests.actors import running
from tests.integration.lane_helpers import Dock, envelope, publish_envelopes
from tests.integration.pulsar_helpers import Answers, Tenant, envelopes_in, eventually, task_lanes
from tests.integration.worker_crew import audience, crew
from tests.records import lane_info

PARTITIONS = 3
MESSAGE = {"title": "hello"}


@pytest.fixture
def wide(admin: PulsarAdmin, names: Topics) -> str:
    """A lane with partitions, empty."""
    lane = names.own_lane("a-task")
    admin.create_lane(lane, PARTITIONS)
    return lane


def wide_from(settings: Settings, above: int, **more: Any) -> Settings:
    """The same, with partitions for tasks that are large for a test."""
    options = ProducerOptions(partition_above=above, partition_targets=1_000, most_partitions=PARTITIONS, **more)
    return settings.model_copy(update={"producer": options})


def held_by(client: pulsar.Client, lane: str) -> list[list[int]]:
    """Sequences in each partition."""
    return [[one.sequence for one in envelopes_in(client, topic)] for topic in topics_of_lane(lane, PARTITIONS)]


def wide_dock(client: pulsar.Client, wide: str) -> Dock:
    """A dock that has attached to all partitions."""
    dock = Dock(client)
    dock.lanes.attach(lane_info(wide, "a-task", partitions=PARTITIONS), 2_000)
    eventually(lambda: dock.lanes.attached() == 1, "attached")
    return dock


# ---------------------------------------------------------------- made and deleted
def test_every_partition_has_the_subscription_and_the_lane_is_listed_once(
    admin: PulsarAdmin, names: Topics, wide: str
) -> None:
    admin.create_lane(wide, PARTITIONS)
    assert [admin.subscriptions(topic) for topic in topics_of_lane(wide, PARTITIONS)] == [[SUBSCRIPTION]] * PARTITIONS
    assert task_lanes(admin, names) == [wide]


def test_a_lane_that_was_left_half_made_is_made_whole(admin: PulsarAdmin, names: Topics) -> None:
    lane = names.own_lane("half")
    admin.create_topic(lane, PARTITIONS)
    admin.create_subscription(topics_of_lane(lane, PARTITIONS)[0], SUBSCRIPTION)
    admin.create_lane(lane, PARTITIONS)
    assert [admin.subscriptions(topic) for topic in topics_of_lane(lane, PARTITIONS)] == [[SUBSCRIPTION]] * PARTITIONS


def test_a_lane_goes_with_its_partitions_once_nobody_is_attached(tenant: Tenant, wide: str) -> None:
    consumer = tenant.client.subscribe(topics_of_lane(wide, PARTITIONS)[1], SUBSCRIPTION)
    assert not tenant.admin.delete_topic(wide)
    consumer.close()
    assert tenant.admin.delete_topic(wide)
    assert tenant.admin.delete_topic(wide)
    assert not task_lanes(tenant.admin, tenant.names)


def test_what_a_crash_left_of_a_lane_is_listed_and_deleted(admin: PulsarAdmin, names: Topics, wide: str) -> None:
    for topic in topics_of_lane(wide, PARTITIONS):
        assert admin.delete_topic(topic)
    assert task_lanes(admin, names) == [wide]
    assert admin.delete_topic(wide)
    assert not task_lanes(admin, names)


# ---------------------------------------------------------------- drained
def test_all_partitions_are_drained_and_acknowledged(client: pulsar.Client, admin: PulsarAdmin, wide: str) -> None:
    for number, topic in enumerate(topics_of_lane(wide, PARTITIONS)):
        publish_envelopes(client, topic, range(1_000 * number, 1_000 * number + 300))
    dock = wide_dock(client, wide)
    taken = dock.take(900)
    assert Counter(delivery.envelope.sequence // 1_000 for delivery in taken) == {0: 300, 1: 300, 2: 300}
    assert dock.lanes.unacked(wide) == 900
    dock.lanes.ack(wide, taken)
    assert dock.lanes.unacked(wide) == 0
    for topic in topics_of_lane(wide, PARTITIONS):
        eventually(lambda topic=topic: admin.backlog(topic) == 0, "the backlog is gone")  # type: ignore[misc]
    publish_envelopes(client, topics_of_lane(wide, PARTITIONS)[2], [5_000])
    assert [delivery.envelope.sequence for delivery in dock.take(1)] == [5_000]
    assert dock.lanes.stop(20)


def test_a_part_of_what_is_there_is_taken_from_all_partitions_in_turn(client: pulsar.Client, wide: str) -> None:
    for number, topic in enumerate(topics_of_lane(wide, PARTITIONS)):
        publish_envelopes(client, topic, range(1_000 * number, 1_000 * number + 200))
    dock = wide_dock(client, wide)
    seen: Counter[int] = Counter()

    def drained() -> bool:
        some, _ = dock.lanes.drain(wide, 10)
        seen.update(delivery.envelope.sequence // 1_000 for delivery in some)
        return sum(seen.values()) >= 150

    eventually(drained, "150 are drained")
    assert min(seen[number] for number in range(PARTITIONS)) > 20
    assert dock.lanes.stop(20)


# ---------------------------------------------------------------- moved to
def test_what_is_moved_to_a_lane_goes_to_one_of_its_partitions(
    client: pulsar.Client, admin: PulsarAdmin, wide: str
) -> None:
    publisher = LanePublisher(client, SystemClock(), create=lambda topic: admin.create_lane(topic, PARTITIONS))
    done = Answers()
    with running(publisher.run):
        publisher.publish(wide, [envelope(number) for number in range(5)], done)
        assert done.wait(1) == [None]
        assert publisher.stop(10)
    assert sorted(map(len, held_by(client, wide))) == [0, 0, 5]


# ---------------------------------------------------------------- the router
def test_router_waits_for_room_and_stores_every_envelope_once(client: pulsar.Client, wide: str) -> None:
    made = ProducerSettings(
        partitions=PARTITIONS,
        pending_messages=40,
        pending_messages_all=40 * PARTITIONS,
        memory_bytes=40_000 * PARTITIONS,
        batch_messages=10,
        batch_bytes=20_000,
        batch_delay_ms=5,
    )
    producers = open_producers(client, topics_of_lane(wide, PARTITIONS), made)
    router = Router(producers, made, RouterSettings(), time.monotonic)
    for start in range(0, 20_000, 500):
        router.send_many([encode_envelope(envelope(number)) for number in range(start, start + 500)])
        assert sum(producer.in_flight[0] for producer in producers) <= 40 * PARTITIONS
    router.flush()
    assert router.confirmed() == 20_000
    router.close()
    assert sorted(sequence for held in held_by(client, wide) for sequence in held) == list(range(20_000))


# ---------------------------------------------------------------- submitted
def test_a_large_task_is_spread_over_partitions_batch_by_batch(fresh_settings: Settings, tenant: Tenant) -> None:
    task = PushTask(id="large", app="a", tier="high", channel="null", message=MESSAGE, chunk=1)
    with PushClient.connect(wide_from(fresh_settings, 5_000)) as push_client:
        small = push_client.submit(
            PushTask(id="small", app="a", tier="high", channel="null", message=MESSAGE), audience(5_000)
        )
        large = push_client.submit(task, audience(5_001))
        assert (small.progress().partitions, large.progress().partitions) == (0, PARTITIONS)
        again = push_client.submit(task, audience(5_001))
        assert again.result is not None
        assert again.result.accepted == 5_001
    found = held_by(tenant.client, tenant.names.own_lane("large"))
    assert sorted(sequence for sequences in found for sequence in sequences) == list(range(5_001))
    assert min(map(len, found)) > 1_500


def test_a_submission_that_broke_off_goes_on_into_the_same_partitions(fresh_settings: Settings, tenant: Tenant) -> None:
    task = PushTask(id="t", app="a", tier="high", channel="null", message=MESSAGE, chunk=1, expected_targets=20_000)
    targets = audience(20_000)

    def breaks_off() -> object:
        yield from targets[:12_000]
        raise ConnectionResetError

    with PushClient.connect(wide_from(fresh_settings, 10_000)) as push_client, pytest.raises(ConnectionResetError):
        push_client.submit(task, breaks_off())  # type: ignore[arg-type]
    with PushClient.connect(fresh_settings) as push_client:
        handle = push_client.submit(task, targets)
        assert handle.progress().targets.total == 20_000
    found = held_by(tenant.client, tenant.names.own_lane("t"))
    assert {sequence for sequences in found for sequence in sequences} == set(range(20_000))


def test_a_task_with_partitions_is_delivered_whole_and_its_topics_go(
    fresh_settings: Settings, admin: PulsarAdmin, names: Topics, tmp_path: Path
) -> None:
    settings = wide_from(fresh_settings, 10_000, compression="zstd")
    with crew(settings, tmp_path, "w1", "w2") as members, PushClient.connect(settings) as push_client:
        task = PushTask(app="shop", tier="medium", channel="log", message=MESSAGE, chunk=20)
        handle = push_client.submit(task, audience(30_000))
        assert handle.progress().partitions == PARTITIONS
        members.check_sent_once(handle, audience(30_000), 60)
        eventually(lambda: not task_lanes(admin, names), "its topics are deleted")


def test_a_cancelled_task_with_partitions_ends_and_its_topics_go(
    fresh_settings: Settings, admin: PulsarAdmin, names: Topics, tmp_path: Path
) -> None:
    settings = wide_from(fresh_settings, 10_000)
    with crew(settings, tmp_path, "w1") as members, PushClient.connect(settings) as push_client:
        push_client.set_capacity(1_000)
        task = PushTask(app="shop", tier="medium", channel="log", message=MESSAGE, chunk=20)
        handle = push_client.submit(task, audience(30_000))
        eventually(lambda: handle.progress().targets.sent > 0, "it has begun")
        handle.cancel()
        view = handle.wait(60)
        assert view.state == "cancelled"
        assert view.targets.sent + view.targets.cancelled == 30_000
        assert sum(members.targets(handle.id).values()) == view.targets.sent
        eventually(lambda: not task_lanes(admin, names), "its topics are deleted")
