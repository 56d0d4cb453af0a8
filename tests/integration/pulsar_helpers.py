"""Waiting for callbacks, and what a lane holds."""

import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pulsar

from backends.pulsar.admin import PulsarAdmin
from backends.pulsar.topic_reader import TopicReader
from dispatcher.ports import StoredRecord
from dispatcher.wire.envelope import Envelope, decode_envelope
from dispatcher.wire.topics import SUBSCRIPTION, Topics
from estate.rules.reading import ENSEMBLES
from tests.integration import worker_crew

DEADLINE_S = 20.0


@dataclass(frozen=True)
class Tenant:
    """A test's own tenant: its client, its administration and its names."""

    client: pulsar.Client
    admin: PulsarAdmin
    names: Topics


class Answers:
    """A `done` callback that remembers what it was called with."""

    def __init__(self) -> None:
        self.errors: list[Exception | None] = []
        self._changed = threading.Condition()

    def __call__(self, error: Exception | None, *_more: Any) -> None:
        with self._changed:
            self.errors.append(error)
            self._changed.notify_all()

    def wait(self, count: int) -> list[Exception | None]:
        """Returns once there are `count` of them; all that came."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.errors) >= count, DEADLINE_S), f"only {self.errors}"
            return list(self.errors)


def eventually(condition: Callable[[], bool], what: str) -> None:
    worker_crew.eventually(condition, DEADLINE_S, what)


def stored_in(client: pulsar.Client, topic: str) -> list[bytes]:
    """All that the topic holds now."""
    with closing(TopicReader(client, topic)) as reader:
        return [record.body for record in read_all(reader)]


def envelopes_in(client: pulsar.Client, lane: str) -> list[Envelope]:
    """All that the lane holds now."""
    return [decode_envelope(body) for body in stored_in(client, lane)]


def read_all(reader: TopicReader, limit: int = 1_000) -> list[StoredRecord]:
    records: list[StoredRecord] = []
    while not reader.at_end():
        records += reader.read(limit, 1.0)
    return records


def task_lanes(admin: PulsarAdmin, names: Topics) -> list[str]:
    """Lanes of tasks that there are."""
    return [topic for namespace in names.task_namespaces() for topic in admin.list_topics(namespace)]


def limit_lane(admin: PulsarAdmin, lane: str, rate: int) -> None:
    """Set how many envelopes/s the namespace of a lane takes; -1 for all that come."""
    namespace = lane.removeprefix("persistent://").rpartition("/")[0]
    admin.set_policy(namespace, "publishRate", {"publishThrottlingRateInMsg": rate, "publishThrottlingRateInByte": -1})


def bookies_of(admin: PulsarAdmin, topic: str) -> tuple[str, ...]:
    """The bookies that store the newest entries of a topic."""
    path = topic.replace("persistent://", "persistent/")
    ledgers = admin.document(f"{path}/internalStats?metadata=true")["ledgers"]
    ensembles = ENSEMBLES.findall(str(ledgers[-1].get("metadata"))) if ledgers else []
    return tuple(sorted({name.strip() for ensemble in ensembles for name in ensemble.split(",")}))


def consumer_of(client: pulsar.Client, lane: str) -> "pulsar.Consumer":
    return client.subscribe(lane, SUBSCRIPTION, consumer_type=pulsar.ConsumerType.Shared)


def bodies_in(client: pulsar.Client, lane: str, count: int) -> list[bytes]:
    """The first `count` messages of a lane, acknowledged."""
    with closing(consumer_of(client, lane)) as consumer:
        received = []
        for _ in range(count):
            message = consumer.receive(round(DEADLINE_S * 1000))
            consumer.acknowledge(message)
            received.append(message.data())
        return received


def is_empty(client: pulsar.Client, lane: str) -> bool:
    """Whether nothing (more) is delivered."""
    with closing(consumer_of(client, lane)) as consumer:
        try:
            consumer.receive(300)
        except pulsar.Timeout:
            return True
    return False
