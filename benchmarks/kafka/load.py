"""The load that every publisher gets, and how its rate is measured. It needs nothing but the standard library.

The Kafka client's environment has nothing else.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Protocol

MESSAGE_BYTES = 1_024
BODIES = 1_000
"""Different bodies, used in turn."""
IN_FLIGHT = 100_000
"""Messages that are sent and not confirmed, at most: the default of Kafka's client."""
LINGER_MS = 10
BATCH_BYTES = 128 * 1024
PATTERNS = {"turns": 1, "runs": 100}
"""Messages to a topic before the next topic has its turn, by the name of the pattern."""
WARM_S = 0.5
"""Time at the beginning of a run that does not count."""
SETTLE_S = 60.0
STALL_S = 60.0
"""Time without a confirmation after which a run fails."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """The load, and where to publish it."""

    address: str
    topics: int
    seconds: float
    """Time that counts, of a run."""
    linger_ms: int = LINGER_MS

    def names(self) -> list[str]:
        return [f"topic-{number:04}" for number in range(self.topics)]


class Publisher(Protocol):
    """Publishes to all topics of a load, which exist."""

    def send(self, topic: int, bodies: Sequence[bytes]) -> None:
        """Send bodies to one topic; wait while IN_FLIGHT messages are not confirmed. Raises if one was lost."""

    def confirmed(self) -> int:
        """Return the number of messages that are stored."""

    def settle(self, timeout_s: float) -> None:
        """Wait until nothing is in flight, or give up what is."""


class Window:
    """Counts the messages of a publisher that are sent and not confirmed, and makes it wait for room."""

    def __init__(self) -> None:
        self._room = threading.Condition()
        self._in_flight = 0
        self._confirmed = 0
        self._error: object = None

    def add(self, messages: int) -> None:
        with self._room:
            while self._in_flight + messages > IN_FLIGHT and self._error is None:
                if not self._room.wait(STALL_S):
                    raise RuntimeError(f"nothing was confirmed for {STALL_S:.0f} s")
            if self._error is not None:
                raise RuntimeError(f"a message was lost: {self._error}")
            self._in_flight += messages

    def confirm(self, messages: int, error: object = None) -> None:
        with self._room:
            self._in_flight -= messages
            self._confirmed += messages
            self._error = self._error or error
            self._room.notify_all()

    def confirmed(self) -> int:
        with self._room:
            return self._confirmed

    def settle(self, left: int, timeout_s: float) -> None:
        """Wait until at most `left` messages are in flight."""
        with self._room:
            self._room.wait_for(lambda: self._in_flight <= left or self._error is not None, timeout_s)


def pieces(topics: int, at_once: int) -> Iterator[tuple[int, list[bytes]]]:
    """Yield (topic, bodies), without end: `at_once` messages to a topic, then the next topic."""
    bodies = [os.urandom(MESSAGE_BYTES) for _ in range(BODIES)]
    parts = cycle([bodies[start : start + at_once] for start in range(0, BODIES, at_once)])
    for topic in cycle(range(topics)):
        yield topic, next(parts)


def rate(publisher: Publisher, load: Load, at_once: int, clock_s: Callable[[], float] = time.monotonic) -> float:
    """Do one run: publish for a while, and return the messages/s that were confirmed after the first moments."""
    began_s = clock_s()
    before, since_s = 0, 0.0
    for topic, bodies in pieces(load.topics, at_once):
        publisher.send(topic, bodies)
        now_s = clock_s()
        if not since_s and now_s - began_s >= WARM_S:
            before, since_s = publisher.confirmed(), now_s
        if since_s and now_s - since_s >= load.seconds:
            break
    confirmed, took_s = publisher.confirmed() - before, clock_s() - since_s
    publisher.settle(SETTLE_S)
    return confirmed / took_s


def main(opened: Callable[[Load], Publisher]) -> None:
    """Open what the command line has as JSON, then answer each line, the name of a pattern, with the rate of a run."""
    load = Load(**json.loads(sys.argv[1]))
    publisher = opened(load)
    print("ready", flush=True)
    for line in sys.stdin:
        print(round(rate(publisher, load, PATTERNS[line.strip()])), flush=True)
    os._exit(0)  # clients would wait for what was given up
