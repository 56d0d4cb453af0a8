"""Envelopes put into a lane by a plain producer, and lanes as an engine drains them."""

import queue
import time
from collections.abc import Sequence

import pulsar

from backends.system_clock import SystemClock
from consumers.lanes.pulsar_lanes import LaneSettings, PulsarLanes
from dispatcher.ports import Delivery
from dispatcher.wire.envelope import Envelope, encode_envelope, encode_message
from lab.simulator.logs import MemoryDeadLetters
from tests.integration.pulsar_helpers import DEADLINE_S, eventually
from tests.records import lane_info
from tests.unit.dispatch.consumers import envelopes

MESSAGE = encode_message({"title": "Hello"})
PREFETCH = 2_000


def envelope(sequence: int, targets: int = 1) -> Envelope:
    names = [f"target-{sequence}-{number}" for number in range(targets)]
    return envelopes.envelope(sequence, names, task="a-task", channel="null")


def publish(client: pulsar.Client, lane: str, bodies: Sequence[bytes]) -> None:
    """In batches of 20."""
    producer = client.create_producer(
        lane, batching_enabled=True, batching_max_messages=20, compression_type=pulsar.CompressionType.LZ4
    )
    for body in bodies:
        producer.send_async(body, lambda _result, _position: None)
    producer.flush()
    producer.close()


def publish_envelopes(client: pulsar.Client, lane: str, sequences: Sequence[int], targets: int = 1) -> None:
    publish(client, lane, [encode_envelope(envelope(number, targets)) for number in sequences])


class Dock:
    """Lanes as an engine uses them: drained when they announce themselves."""

    def __init__(self, client: pulsar.Client, settings: LaneSettings | None = None) -> None:
        self.ready: queue.Queue[str] = queue.Queue()
        self.letters = MemoryDeadLetters()
        self.lanes = PulsarLanes(client, self.ready.put, self.letters, SystemClock(), settings)

    def attach(self, lane: str, prefetch: int = PREFETCH, chunk: int = 1) -> None:
        self.lanes.attach(lane_info(lane, "a-task", chunk=chunk), prefetch)

    def attached(self, lane: str) -> None:
        """Returns once the lane's consumer is open."""
        self.attach(lane)
        eventually(lambda: self.lanes.attached() == 1, "attached")

    def take(self, count: int, max_targets: int = 1_000) -> list[Delivery]:
        """Wait for announcements until this number of deliveries has come; return all that came."""
        deliveries: list[Delivery] = []
        until_s = time.monotonic() + DEADLINE_S
        while len(deliveries) < count:
            lane = self.ready.get(timeout=max(0.01, until_s - time.monotonic()))
            deliveries += self.drained(lane, max_targets)
        return deliveries

    def drained(self, lane: str, max_targets: int = 1_000) -> list[Delivery]:
        """Until it is empty."""
        deliveries: list[Delivery] = []
        empty = False
        while not empty:
            some, empty = self.lanes.drain(lane, max_targets)
            deliveries += some
        return deliveries
