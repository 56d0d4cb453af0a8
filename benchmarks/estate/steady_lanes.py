"""Lanes that are published to at a steady rate, the longest time that one of them waited for a receipt, and their end.

Every message has a number, so that what a lane lost or has twice is found by reading it.
"""

import statistics
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import pulsar

from backends.pulsar.admin import PulsarAdmin
from backends.pulsar.client import close, connect, topics
from backends.pulsar.publisher import LaneProducer
from backends.settings import PulsarSettings
from benchmarks.stage import wait_for
from dispatcher.ports import Done

EVERY_S = 0.05
DEADLINE_S = 20.0
"""How long a lane may take to go on."""
BYTES = 100


@dataclass
class Pause:
    """The longest pause of any lane, known when the context has ended."""

    seconds: float = 0.0
    median_s: float = 0.0
    """The median of the longest pauses of all lanes."""


@dataclass(frozen=True)
class Stored:
    """Messages of all lanes, compared with what was published."""

    lost: int
    """Numbers with a receipt that no lane has."""
    twice: int
    """Copies beyond the first: what has no receipt is sent again when the client connects again, or is replaced."""


@contextmanager
def steady_lanes(settings: PulsarSettings, count: int, within_s: float = DEADLINE_S) -> Iterator["SteadyLanes"]:
    """Create lanes of a provisioned tenant and publish to them, from when each has its first receipt.

    within_s: deadline of these receipts.
    """
    lanes = [topics(settings).own_lane(f"task-{number}") for number in range(count)]
    with closing(PulsarAdmin(settings)) as admin:
        for lane in lanes:
            admin.create_lane(lane)
    client = connect(settings)
    try:
        with SteadyLanes(client, lanes) as steady:
            steady.wait_for_all(within_s)
            yield steady
    finally:
        close(client)


class SteadyLanes:
    """Publishes a message to each lane every 50 ms."""

    def __init__(self, client: pulsar.Client, lanes: Sequence[str]) -> None:
        self._client, self._lanes = client, lanes
        self._producers = [LaneProducer(client, lane) for lane in lanes]
        self._receipts: list[list[float]] = [[] for _ in lanes]
        self._times: list[tuple[float, float]] = []
        """When each message was sent, and the seconds until its receipt."""
        self._failed: list[Exception] = []
        self._sent = 0
        self.most_in_flight = 0
        """The most messages without a receipt at the same time."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._publish, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(DEADLINE_S)
        for producer in self._producers:
            producer.close()

    def _publish(self) -> None:
        number = 0
        while not self._ended.wait(EVERY_S):
            message = [str(number).encode().ljust(BYTES)]
            for producer, receipts in zip(self._producers, self._receipts, strict=True):
                producer.send(message, self._receipt(receipts, time.monotonic()))
            self._sent += len(self._producers)
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            number += 1

    def _receipt(self, receipts: list[float], sent: float) -> Done:
        def received(error: Exception | None) -> None:
            if error is not None:
                self._failed.append(error)
            receipts.append(time.monotonic())
            self._times.append((sent, receipts[-1] - sent))

        return received

    @property
    def in_flight(self) -> int:
        """Return the number of messages without a receipt."""
        return self._sent - sum(map(len, self._receipts))

    def wait_for_all(self, within_s: float = DEADLINE_S) -> None:
        """Wait until each lane has a receipt from now on."""
        counts = [len(receipts) for receipts in self._receipts]
        wait_for(
            "a receipt from each lane",
            lambda: all(len(now) > before for now, before in zip(self._receipts, counts, strict=True)),
            within_s,
            0.02,
        )

    def p99_ms(self, seconds: float) -> float:
        """Publish for this long. Return the p99 of the time until the receipt of what was sent in it."""
        began = time.monotonic()
        self._ended.wait(seconds)
        self.wait_for_all()
        took = sorted(took for sent, took in list(self._times) if began <= sent < began + seconds)
        return took[int(len(took) * 0.99)] * 1000

    @contextmanager
    def longest_pause(self, goes_on_within_s: float = DEADLINE_S) -> Iterator[Pause]:
        """Yield the longest pause of any lane within the context, and until each goes on after it."""
        pause, began = Pause(), time.monotonic()
        yield pause
        self.wait_for_all(goes_on_within_s)
        pauses = [self._longest(receipts, began) for receipts in self._receipts]
        pause.seconds, pause.median_s = max(pauses), statistics.median(pauses)

    @staticmethod
    def _longest(receipts: Sequence[float], began: float) -> float:
        times = [at for at in list(receipts) if at >= began]
        return max((after - before for before, after in pairwise([began, *times])), default=DEADLINE_S)

    def check_nothing_lost(self) -> None:
        """Check that every message gets its receipt."""
        self._ended.set()
        self._thread.join(DEADLINE_S)
        wait_for("all receipts", lambda: self.in_flight == 0, DEADLINE_S, 0.02)
        assert not self._failed

    def stored(self) -> Stored:
        """End publishing, read all lanes, and compare them with what was published."""
        self.check_nothing_lost()
        published = self._sent // len(self._lanes)
        lost = twice = 0
        for lane in self._lanes:
            found = self._numbers(lane)
            lost += published - len(found)
            twice += found.total() - len(found)
        return Stored(lost, twice)

    def _numbers(self, lane: str) -> Counter[int]:
        found: Counter[int] = Counter()
        with closing(self._client.create_reader(lane, pulsar.MessageId.earliest)) as reader:
            while reader.has_message_available():
                found[int(reader.read_next(round(DEADLINE_S * 1000)).data())] += 1
        return found
