"""Snapshots of the backlog on real servers: what they tell, and what they cost them."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pulsar
import pytest
import redis.connection
import urllib3

from backends.pulsar.broker_lanes import BrokerLanes
from backends.pulsar.client import topics
from backends.redis.backlog import BacklogReader
from backends.redis.view import open_view
from backends.system_clock import SystemClock
from dispatcher.model.errors import Unreachable
from dispatcher.wire.envelope import encode_envelope
from dispatcher.wire.topics import topics_of_lane
from fairlane import PushClient, PushTask, Settings
from spark_jobs.backlog.snapshot_loop import BacklogSnapshotter
from tests.integration.lane_helpers import envelope
from tests.integration.pulsar_helpers import Tenant
from tests.integration.worker_crew import audience, crew, eventually, push

TASKS = 12
STATISTICS_S = 60.0
"""The broker measures every 10 s."""


@pytest.fixture
def snapshotter(fresh_settings: Settings) -> Iterator[BacklogSnapshotter]:
    brokers = BrokerLanes(fresh_settings.pulsar, topics(fresh_settings.pulsar), SystemClock())
    with closing(open_view(fresh_settings.redis)) as view, closing(brokers):
        yield BacklogSnapshotter(BacklogReader(view), brokers, SystemClock(), 10.0)


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every request that goes to a broker's REST interface or to Redis."""
    seen: list[str] = []
    send, urlopen = redis.connection.Connection.send_packed_command, urllib3.HTTPConnectionPool.urlopen

    def sent(self: redis.connection.Connection, command: object, check_health: bool = True) -> None:
        seen.append("redis")
        send(self, command, check_health=False)  # type: ignore[no-untyped-call]

    def opened(self: urllib3.HTTPConnectionPool, method: str, url: str, *args: object, **more: object) -> object:
        seen.append(url.rpartition("/admin/v2/")[2])
        return urlopen(self, method, url, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(redis.connection.Connection, "send_packed_command", sent)
    monkeypatch.setattr(urllib3.HTTPConnectionPool, "urlopen", opened)
    return seen


def numbered(number: int) -> PushTask:
    return push(id=f"task-{number:02d}", app=f"app-{number % 2}", chunk=5, weight=2.0)


def make_ready(settings: Settings, folder: Path) -> None:
    """The view, by a worker that leaves again."""
    with crew(settings, folder, "w1") as members:
        members.leave("w1")


def test_a_snapshot_is_one_request_to_each_broker_and_one_to_redis(
    fresh_settings: Settings, snapshotter: BacklogSnapshotter, requests: list[str], tmp_path: Path
) -> None:
    make_ready(fresh_settings, tmp_path)
    with PushClient.connect(fresh_settings) as client:
        for number in range(TASKS):
            client.submit(numbered(number), audience(20, f"t{number}"))
    snapshotter.take()
    requests.clear()
    row = snapshotter.take()
    assert requests == ["broker-stats/topics", "redis"]
    assert sorted((task["task"], task["queued"]) for task in row["tasks"]) == [
        (f"task-{number:02d}", 20) for number in range(TASKS)
    ]


def test_it_tells_of_workers_lanes_and_what_was_sent(
    fresh_settings: Settings, snapshotter: BacklogSnapshotter, tmp_path: Path
) -> None:
    with PushClient.connect(fresh_settings) as client, crew(fresh_settings, tmp_path, "w1"):
        client.set_capacity(50)
        client.submit(numbered(1), audience(20_000))
        lane = topics(fresh_settings.pulsar).own_lane("task-01")

        def is_reported() -> bool:
            row = snapshotter.take()
            (task,) = row["tasks"]
            attached = [one for one in row["lanes"] if one["lane"] == lane and one["consumers"]]
            return bool(attached and attached[0]["backlog"] and task["sent"] and task["causes"])

        eventually(is_reported, STATISTICS_S, "the lane with its consumer, what was sent and what held it back")
        row = snapshotter.take()
        assert [worker["worker"].partition("-")[0] for worker in row["workers"]] == ["w1"]
        high = next(tier for tier in row["tiers"] if tier["tier"] == "high")
        assert (high["pool"], high["cap"], high["wanted"]) == ("total", 50, 1.0)
        (task,) = row["tasks"]
        assert high["granted"] >= task["sent"]
        assert task["sent"] + task["queued"] + task["in_flight"] == task["published"] == 20_000


def fill(client: pulsar.Client, topic: str, entries: int) -> None:
    """A message an entry."""
    producer = client.create_producer(topic, batching_enabled=False)
    for number in range(entries):
        producer.send_async(encode_envelope(envelope(number)), lambda _result, _position: None)
    producer.flush()
    producer.close()


def test_a_snapshot_has_the_entries_of_each_partition(
    fresh_settings: Settings, snapshotter: BacklogSnapshotter, tenant: Tenant, tmp_path: Path
) -> None:
    make_ready(fresh_settings, tmp_path)
    lane, counts = tenant.names.own_lane("skewed"), (10, 130, 20)
    tenant.admin.create_lane(lane, len(counts))
    for topic, count in zip(topics_of_lane(lane, len(counts)), counts, strict=True):
        fill(tenant.client, topic, count)

    def is_recorded() -> bool:
        lanes = [one for one in snapshotter.take()["lanes"] if one["lane"] == lane]
        return {one["partition"]: one["backlog"] for one in lanes} == dict(enumerate(counts))

    eventually(is_recorded, STATISTICS_S, "all entries")


def test_with_a_server_gone_there_is_no_snapshot(fresh_settings: Settings) -> None:
    nowhere = fresh_settings.redis.model_copy(update={"url": "redis://127.0.0.1:1/0"})
    brokers = BrokerLanes(fresh_settings.pulsar, topics(fresh_settings.pulsar), SystemClock())
    with closing(open_view(nowhere)) as view, closing(brokers), pytest.raises(Unreachable):
        BacklogSnapshotter(BacklogReader(view), brokers, SystemClock(), 10.0).take()
