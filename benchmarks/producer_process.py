"""One process that publishes for `python -m benchmarks producer`, with the client's defaults or with tuned settings.

Run as `python -m benchmarks.producer_process SPEC` with a Spec in JSON. It prints `ready` once its producers are open,
waits for a line, publishes, and prints one JSON object (Published).
"""

import random
import resource
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from backends.pulsar.client import close, connect
from backends.settings import Compression, PulsarSettings
from dispatcher.ports import Done
from dispatcher.scheduling.read_ahead import envelope_bytes, receiver_queue
from dispatcher.wire.envelope import FORMAT, Envelope, encode_envelope, encode_message
from dispatcher.wire.topics import topics_of_lane
from producers.publish.lanes import open_producers
from producers.publish.router import Partition, Router, RouterSettings
from producers.publish.tuning import ENVELOPES_PER_S, MIB, TARGETS_PER_S, ProducerNeeds, ProducerSettings, tune

MESSAGE = encode_message({"title": "Benchmark", "body": "x" * 200})
TIMED_EVERY = 16
"""One in this many messages with their own receipt is timed."""
BODIES = 512
"""Number of different bodies, used in turn.

It is more than a batch holds, so that compression finds no additional repetition.
"""
SAMPLE_S = 0.05
ACKED, TCP_INFO_BYTES = 120, 256
"""Offset of the confirmed bytes of a connection in Linux' report, and the size of the report.

The received bytes follow the confirmed ones.
"""


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """The messages to publish, and how."""

    url: str
    topic: str
    partitions: int
    variant: str
    """The kind of producer.

    `defaults`: the client's. `batched`: the same with batching on, as clients of other languages have it. `client`: our
    settings, its own routing. `router`: our settings and the router.
    """
    chunk: int = 1
    messages: int = 0
    """Number of messages in all. 0: publish for `seconds`."""
    seconds: float = 0.0
    rate: float = 0.0
    """Messages/s; 0 for as fast as possible."""
    memory_mib: int = 128
    compression: Compression = "lz4"
    """The router's compression."""
    seed: int = 1


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one process."""

    messages: int
    seconds: float
    """Time until all was stored."""
    cpu_s: float
    wire_bytes: int
    """Bytes sent and received."""
    p50_ms: float
    """Median time from the hand-over to the client until stored."""
    p99_ms: float
    """99th percentile of that time."""
    resident_mib: float
    samples: list[tuple[float, int]] = []
    """(monotonic time, messages stored), every 50 ms."""


class Times:
    """Records how long messages took. Calls come one at a time for each partition, and appending is atomic."""

    def __init__(self) -> None:
        self._taken: list[tuple[float, int]] = []

    def add(self, since_s: float, messages: int) -> None:
        self._taken.append((time.monotonic() - since_s, messages))

    def quantile_ms(self, part: float) -> float:
        left = part * sum(messages for _, messages in self._taken)
        for taken_s, messages in sorted(self._taken):
            left -= messages
            if left <= 0:
                return taken_s * 1000
        return 0.0


class ClientPublisher:
    """The client's producer of a topic with partitions, with its own routing.

    As in its documentation, each message has a callback. It waits while a queue is full, since it would otherwise drop
    messages.
    """

    def __init__(self, client: Any, spec: Spec, times: Times) -> None:
        self._producer = client.create_producer(spec.topic, block_if_queue_full=True, **_options(spec))
        self._times = times
        self._count = 0
        self._sent = 0

    def send(self, bodies: Sequence[bytes]) -> None:
        send = self._producer.send_async
        for body in bodies:
            self._sent += 1
            send(body, partial(self._answered, time.monotonic()))

    def stored(self) -> int:
        return self._count

    def finish(self) -> None:
        self._producer.flush()
        while self._count < self._sent:
            time.sleep(0.001)

    def close(self) -> None:
        self._producer.close()

    def _answered(self, since_s: float, result: Any, _message_id: Any) -> None:
        import pulsar

        if result == pulsar.Result.Ok:
            self._count += 1
            if self._count % TIMED_EVERY == 0:
                self._times.add(since_s, TIMED_EVERY)


class TunedPublisher:
    """The producer that submissions use."""

    def __init__(self, client: Any, spec: Spec, times: Times) -> None:
        settings = settings_of(spec)
        topics = topics_of_lane(spec.topic, spec.partitions)
        producers = open_producers(client, topics, settings, spec.compression)
        self._timed = [Timed(producer, times) for producer in producers]
        self._router = Router(self._timed, settings, RouterSettings(), time.monotonic)

    def send(self, bodies: Sequence[bytes]) -> None:
        self._router.send_many(bodies)

    def stored(self) -> int:
        return sum(each.stored for each in self._timed)

    def finish(self) -> None:
        self._router.flush()

    def close(self) -> None:
        self._router.close()


class Timed:
    """A partition that records how long its messages took."""

    def __init__(self, partition: Partition, times: Times) -> None:
        self._partition = partition
        self._times = times
        self.stored = 0

    def send(self, bodies: Sequence[bytes], done: Done) -> None:
        self._partition.send(bodies, partial(self._done, time.monotonic(), len(bodies), done))

    def close(self) -> None:
        self._partition.close()

    def _done(self, since_s: float, messages: int, done: Done, error: Exception | None) -> None:
        if error is None:
            self.stored += messages
            self._times.add(since_s, messages)
        done(error)


def settings_of(spec: Spec) -> ProducerSettings:
    """Return the settings that a submission uses."""
    rate = min(ENVELOPES_PER_S, TARGETS_PER_S / spec.chunk)
    size = envelope_bytes(spec.chunk, len(MESSAGE))
    return tune(ProducerNeeds(spec.partitions, size, rate, spec.memory_mib * MIB, receiver_queue(spec.chunk))).settings


def _options(spec: Spec) -> dict[str, Any]:
    """Return the options of the client's producer. `defaults`: only that it waits."""
    import pulsar

    if spec.variant == "client":
        tuned = settings_of(spec)
        return {
            "batching_enabled": True,
            "batching_max_messages": tuned.batch_messages,
            "batching_max_allowed_size_in_bytes": tuned.batch_bytes,
            "batching_max_publish_delay_ms": tuned.batch_delay_ms,
            "max_pending_messages": tuned.pending_messages,
            "max_pending_messages_across_partitions": tuned.pending_messages_all,
            "compression_type": pulsar.CompressionType.LZ4,
            "send_timeout_millis": 0,
        }
    return {"batching_enabled": True} if spec.variant == "batched" else {}


def bodies_of(spec: Spec, count: int = BODIES) -> list[bytes]:
    """Return envelopes as a submission makes them, with targets of 64 random hex characters."""
    chance = random.Random(spec.seed)  # the targets are not secrets
    made = []
    for number in range(count):
        targets = [f"{chance.getrandbits(256):064x}" for _ in range(spec.chunk)]
        made.append(
            encode_envelope(
                Envelope(
                    format=FORMAT,
                    task="bench",
                    writer="0",
                    sequence=number,
                    attempt=0,
                    app="bench",
                    channel="null",
                    published_ms=0,
                    not_before_ms=0,
                    expires_ms=0,
                    size=spec.chunk,
                    max_attempts=5,
                    message=MESSAGE,
                    targets=targets,
                )
            )
        )
    return made


def wire_bytes() -> int:
    """Return the bytes sent and received so far over all TCP connections of this process.

    0 where Linux does not report them.
    """
    total = 0
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError, struct.error):
            if entry.readlink().name.startswith("socket:"):
                with socket.socket(fileno=socket.dup(int(entry.name))) as twin:
                    tcp_info = twin.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
                    total += sum(struct.unpack_from("QQ", tcp_info, ACKED))
    return total


Publisher = ClientPublisher | TunedPublisher


class Sampler(threading.Thread):
    """Samples the number of stored messages every 50 ms."""

    def __init__(self, read: Callable[[], int]) -> None:
        super().__init__(daemon=True)
        self.samples: list[tuple[float, int]] = []
        self._look = read
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(SAMPLE_S):
            self.samples.append((time.monotonic(), self._look()))

    def stop(self) -> list[tuple[float, int]]:
        self._over.set()
        self.join()
        return self.samples


def slices(spec: Spec, bodies: list[bytes]) -> Iterator[Sequence[bytes]]:
    """Yield the messages to send at once until there are enough; at the rate, if one is set."""
    each = max(1, min(BODIES, 4_096 // spec.chunk))
    each = min(each, max(1, round(spec.rate / 100))) if spec.rate else each
    began_s, sent = time.monotonic(), 0
    while sent < spec.messages if spec.messages else time.monotonic() - began_s < spec.seconds:
        count = min(each, spec.messages - sent) if spec.messages else each
        start = sent % (BODIES - each + 1)
        yield bodies[start : start + count]
        sent += count
        if spec.rate:
            time.sleep(max(0.0, began_s + sent / spec.rate - time.monotonic()))


def publish(publisher: Publisher, spec: Spec, times: Times) -> Published:
    bodies, sampler = bodies_of(spec), Sampler(publisher.stored)
    wire, cpu_s, began_s, sent = wire_bytes(), time.process_time(), time.monotonic(), 0
    sampler.start()
    for some in slices(spec, bodies):
        publisher.send(some)
        sent += len(some)
    publisher.finish()
    seconds, cpu_s = time.monotonic() - began_s, time.process_time() - cpu_s
    return Published(
        messages=sent,
        seconds=seconds,
        cpu_s=cpu_s,
        wire_bytes=wire_bytes() - wire,
        p50_ms=times.quantile_ms(0.5),
        p99_ms=times.quantile_ms(0.99),
        resident_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        samples=sampler.stop(),
    )


def main(spec: Spec) -> None:
    client, times = connect(PulsarSettings(url=spec.url)), Times()
    publisher: Publisher = (TunedPublisher if spec.variant == "router" else ClientPublisher)(client, spec, times)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    published = publish(publisher, spec, times)
    sys.stdout.write(msgspec.json.encode(published).decode() + "\n")
    sys.stdout.flush()
    publisher.close()
    close(client)


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=Spec))
