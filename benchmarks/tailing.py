"""A steady load on a few lanes, each with a consumer that reads what was just published, and how long that takes."""

import os
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pulsar

from backends.pulsar.publisher import LaneProducer
from dispatcher.model.errors import FairlaneError
from dispatcher.wire.topics import SUBSCRIPTION

BODY = os.urandom(1_016)
"""The rest of a message, behind its time."""
RATE = 25
"""Messages/s of a lane."""
POLL_MS = 200
_TIME = struct.Struct("<d")


class Waits:
    """Times from publishing to receiving. Appending is atomic, so threads may add at once."""

    def __init__(self, rate: float) -> None:
        """rate: messages/s that are published."""
        self._rate = rate
        self._taken: list[tuple[float, float]] = []

    def add(self, published_s: float, took_s: float) -> None:
        """Note a message by the wall time of its publishing."""
        self._taken.append((published_s, took_s))

    def between(self, *spans: tuple[float, float]) -> list[float]:
        """Return the seconds of all messages published within the spans of wall time, sorted.

        Raises FairlaneError if half of them are missing: those that did not come would have waited longest.
        """
        taken = list(self._taken)
        found = sorted(took_s for at_s, took_s in taken if any(since <= at_s < until for since, until in spans))
        expected = self._rate * sum(until - since for since, until in spans)
        if not found or len(found) < 0.5 * expected:
            raise FairlaneError(f"Only {len(found)} of {expected:.0f} messages of the tailing lanes came.")
        return found


class Tailing:
    """Publishes to some lanes and receives from them. Use `running`."""

    def __init__(self, client: Any, lanes: Sequence[str]) -> None:
        self._client, self._lanes = client, lanes
        self._over = threading.Event()
        self._waits = Waits(RATE * len(lanes))
        self._error: Exception | None = None

    def publish(self) -> None:
        """Publish to one lane after the other at the rate, until it is over."""
        producers = [LaneProducer(self._client, lane) for lane in self._lanes]
        began_s = time.monotonic()
        for number, producer in enumerate(producer for _ in iter(int, 1) for producer in producers):
            if self._over.wait(max(0.0, began_s + number / RATE / len(producers) - time.monotonic())):
                break
            producer.send([_TIME.pack(time.time()) + BODY], self._stored)
        for producer in producers:
            producer.close()

    def receive(self, lane: str) -> None:
        """Receive from one lane until it is over."""
        with closing(self._client.subscribe(lane, SUBSCRIPTION, consumer_type=pulsar.ConsumerType.Shared)) as consumer:
            while not self._over.is_set():
                try:
                    message = consumer.receive(POLL_MS)
                except pulsar.Timeout:
                    continue
                (published_s,) = _TIME.unpack_from(message.data())
                self._waits.add(published_s, time.time() - published_s)
                consumer.acknowledge(message)

    def waits(self) -> Waits:
        """Return what was measured. Raises FairlaneError if a message was lost."""
        if self._error is not None:
            raise FairlaneError(f"A message of the tailing lanes was not stored: {self._error}")
        return self._waits

    def stop(self) -> None:
        self._over.set()

    def _stored(self, error: Exception | None) -> None:
        self._error = self._error or error


@contextmanager
def running(client: Any, lanes: Sequence[str]) -> Iterator[Tailing]:
    """Publish to the lanes and receive from them within the block."""
    tailing = Tailing(client, lanes)
    threads = [threading.Thread(target=tailing.receive, args=(lane,), name=f"tail-{lane}") for lane in lanes]
    threads.append(threading.Thread(target=tailing.publish, name="tail-publisher"))
    for thread in threads:
        thread.start()
    try:
        yield tailing
    finally:
        tailing.stop()
        for thread in threads:
            thread.join(30)
