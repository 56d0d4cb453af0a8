"""Waiting for callbacks, and what a lane holds."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pulsar

from backends.pulsar.admin import PulsarAdmin
from dispatcher.wire.topics import SUBSCRIPTION, Topics

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
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"never came true: {what}"
        time.sleep(0.02)


def bodies_in(client: pulsar.Client, lane: str, count: int) -> list[bytes]:
    """The first `count` messages of a lane, acknowledged."""
    consumer = client.subscribe(lane, SUBSCRIPTION, consumer_type=pulsar.ConsumerType.Shared)
    try:
        received = []
        for _ in range(count):
            message = consumer.receive(round(DEADLINE_S * 1000))
            consumer.acknowledge(message)
            received.append(message.data())
        return received
    finally:
        consumer.close()


def is_empty(client: pulsar.Client, lane: str) -> bool:
    """Whether nothing (more) is delivered."""
    consumer = client.subscribe(lane, SUBSCRIPTION, consumer_type=pulsar.ConsumerType.Shared)
    try:
        consumer.receive(300)
    except pulsar.Timeout:
        return True
    finally:
        consumer.close()
    return False
