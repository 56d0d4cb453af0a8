"""Takes snapshots of the backlog at a fixed interval until it is stopped."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from backends.pulsar.broker_lanes import BrokerLanes
from backends.redis.backlog import BacklogReader
from dispatcher.clock import Clock
from dispatcher.model.errors import FairlaneError
from spark_jobs.backlog.snapshot_row import Row, SnapshotHeader, snapshot_row

if TYPE_CHECKING:
    from spark_jobs.backlog.snapshot_files import SnapshotFiles


class BacklogSnapshotter:
    """Takes snapshots of the backlog: one request to each broker and one to Redis."""

    def __init__(self, redis: BacklogReader, brokers: BrokerLanes, clock: Clock, every_s: float) -> None:
        self._redis = redis
        self._brokers = brokers
        self._clock = clock
        self._every_s = every_s

    def take(self) -> Row:
        """Take one snapshot.

        Raises Unreachable, NotReady (the counts of the view are not yet correct) and Refused; there is no snapshot
        then.
        """
        begun_s = self._clock.monotonic_s()
        answers = self._brokers.read()
        backlog = self._redis.read()
        took_ms = round((self._clock.monotonic_s() - begun_s) * 1000)
        return snapshot_row(backlog, answers, SnapshotHeader(self._every_s, took_ms, self._brokers.measured_every_s))


def failures(row: Row) -> list[str]:
    """Return what is missing in a snapshot, as text."""
    return [f"broker {each['broker']}: {each['failure']}" for each in row["brokers"] if not each["answered"]]


@dataclass(kw_only=True)
class SnapshotSeries:
    """Stores snapshots at a fixed interval.

    A snapshot that could not be read leaves a gap: it is reported once and has no row.
    """

    take: Callable[[], Row]
    files: "SnapshotFiles"
    clock: Clock
    every_s: float
    tell: Callable[[str], None]
    taken: int = 0
    _logged: str = ""

    def run(self, stop: threading.Event) -> None:
        """Take a snapshot after each interval until `stop` is set. Raises errors that waiting does not fix.

        The first is not taken at once, so that a process that writes already comes first, and this one is refused.
        """
        next_s = self.clock.monotonic_s() + self.every_s
        while not stop.wait(max(0.0, next_s - self.clock.monotonic_s())):
            self.step()
            missed = int((self.clock.monotonic_s() - next_s) / self.every_s)
            next_s += self.every_s * (1 + missed)

    def step(self) -> None:
        """Take one snapshot, or leave a gap."""
        try:
            row = self.take()
            self.files.add(row)
        except FairlaneError as error:
            if not error.retryable:
                raise
            self._say(f"no snapshot: {error}")
            return
        self.taken += 1
        self._say("; ".join(failures(row)))

    def _say(self, message: str) -> None:
        """Report a message unless it is the same as the last one."""
        if message and message != self._logged:
            self.tell(message)
        elif self._logged and not message:
            self.tell("snapshots are complete again")
        self._logged = message
