"""Publish with Kafka's client, confluent-kafka, in an environment of its own; see load.py."""

import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.kafka.load import BATCH_BYTES, IN_FLIGHT, STALL_S, Load, main

AT_ONCE = 256
"""Topics created by one request."""
IN_FLIGHT_REQUESTS = 5
"""Default of Kafka's Java client. By default this one sends all it has, and the next run waits for it at the broker."""
DRAIN_S = 5.0
POLL_EVERY = 256
"""Messages between two looks at errors."""


def create_topics(address: str, names: Sequence[str]) -> None:
    """Create topics of one partition that do not exist yet. Raises what the client raises."""
    admin = AdminClient({"bootstrap.servers": address})
    missing = [name for name in names if name not in admin.list_topics(timeout=60).topics]
    for start in range(0, len(missing), AT_ONCE):
        some = [NewTopic(name, num_partitions=1, replication_factor=1) for name in missing[start : start + AT_ONCE]]
        for made in admin.create_topics(some, request_timeout=120, operation_timeout=120).values():
            made.result()


class KafkaPublisher:
    """One producer for all topics, as Kafka's client has it."""

    def __init__(self, load: Load) -> None:
        self._names = load.names()
        create_topics(load.address, self._names)
        self._sent = self._purged = 0
        self._failure: Any = None
        self._producer = Producer(
            {
                "bootstrap.servers": load.address,
                "acks": "all",
                "compression.type": "none",
                "linger.ms": load.linger_ms,
                "batch.size": BATCH_BYTES,
                "queue.buffering.max.messages": IN_FLIGHT,
                "max.in.flight.requests.per.connection": IN_FLIGHT_REQUESTS,
                "delivery.report.only.error": True,
                "message.timeout.ms": 300_000,
                "on_delivery": self._failed,
            }
        )

    def send(self, topic: int, bodies: Sequence[bytes]) -> None:
        produce, name = self._producer.produce, self._names[topic]
        for body in bodies:
            try:
                produce(name, body)
            except BufferError:
                self._wait_for_room()
                produce(name, body)
            self._sent += 1
            if self._sent % POLL_EVERY == 0:
                self._producer.poll(0)
        if self._failure is not None:
            raise RuntimeError(f"a message was lost: {self._failure}")

    def confirmed(self) -> int:
        return self._sent - self._purged - len(self._producer)

    def settle(self, timeout_s: float) -> None:
        """Wait for some seconds, then drop what was not sent: the slowest runs would take minutes to send it."""
        self._producer.flush(min(timeout_s, DRAIN_S))
        left = len(self._producer)
        if left:
            self._producer.purge(in_flight=False)
            self._producer.flush(timeout_s)
            self._purged += left
            self._failure = None

    def _wait_for_room(self) -> None:
        end_s = time.monotonic() + STALL_S
        while len(self._producer) >= IN_FLIGHT:
            self._producer.poll(0.002)
            if time.monotonic() > end_s:
                raise RuntimeError(f"nothing was confirmed for {STALL_S:.0f} s")

    def _failed(self, error: Any, _message: Any) -> None:
        self._failure = self._failure or error


if __name__ == "__main__":
    main(KafkaPublisher)
