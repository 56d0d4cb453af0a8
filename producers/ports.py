"""The lanes that a submission writes to, as Protocols that need no server, and everything a submission uses."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from backends.background_calls import BackgroundCalls
from backends.redis.registry.registry import Registry
from backends.settings import ProducerOptions
from dispatcher.access.principal import NOBODY, Caller
from dispatcher.clock import Clock
from dispatcher.ports import ControlLog
from dispatcher.wire.control import TaskRecord
from dispatcher.wire.topics import Topics
from producers.submit.history import KnownSubmissions


class LaneWriter(Protocol):
    """Publishes the envelopes of one submission to its lane."""

    def send_many(self, bodies: Sequence[bytes]) -> None:
        """Queue the envelopes; wait while the bounded queue is full. Raises Unreachable once one could not be
        stored."""
        ...

    def confirmed(self) -> int:
        """Return how many envelopes are stored without a gap, counted from the first. Any thread may call it."""
        ...

    def flush(self) -> None:
        """Return when all envelopes are stored; raise Unreachable if that fails."""
        ...

    def close(self) -> None:
        """Close the lane. Envelopes not stored by now may or may not be stored later."""
        ...


class LaneOpener(Protocol):
    def create(self, topic: str, partitions: int) -> None:
        """Create a topic (0 partitions: a plain one) and its subscription if they do not exist."""
        ...

    def open(self, record: TaskRecord) -> LaneWriter:
        """Open a producer for each partition of the task's lane, set up for its envelopes."""
        ...


@dataclass(frozen=True, slots=True)
class CheckpointPace:
    """A checkpoint is due `first_s` after the start, then after `envelopes` or `longest_s`, but never within
    `shortest_s`."""

    first_s: float = 0.2
    shortest_s: float = 0.5
    longest_s: float = 1.0
    envelopes: int = 20_000


@dataclass(frozen=True, slots=True)
class WindowPace:
    """When to close a window of an audience: after this many targets, envelopes or bytes, or this long after the last.

    A window is encoded before it is sent and should still be in the processor's cache when sent: windows of 16 MB took
    a fifth more CPU. The first window is small, so that the record of a large list is stored without a long wait for
    cutting.
    """

    first_targets: int = 4_096
    targets: int = 131_072
    envelopes: int = 8_192
    bytes: int = 4 * 1024 * 1024
    longest_s: float = 1.0
    """Maximum time between two windows while targets come."""
    shortest_s: float = 0.012
    """Minimum time between two windows while the next target is awaited. Each window is a record in the control
    topic."""


@dataclass(frozen=True, slots=True)
class LeasePace:
    """Times for the lease of a submission."""

    renew_s: float = 1.5
    """How often the holder renews the lease."""
    poll_s: float = 0.1
    """How often another submitter's lease is checked."""
    watch_s: float = 2.0
    """The holder is alive if the lease is renewed within this time."""
    redis_s: float = 60.0
    """How long a submission in progress waits for Redis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The services that a submission uses."""

    control: ControlLog
    registry: Registry
    known: KnownSubmissions
    lanes: LaneOpener
    topics: Topics
    clock: Clock
    new_id: Callable[[], str]
    pace: CheckpointPace = CheckpointPace()
    options: ProducerOptions = field(default_factory=ProducerOptions)
    windows: WindowPace = WindowPace()
    leases: LeasePace = LeasePace()
    who: str = "another process"
    """The name of this process shown to other submitters of a task."""
    caller: Caller = NOBODY
    """Who makes changes with these services, as records name it."""
    renewals: BackgroundCalls = field(default_factory=BackgroundCalls)
    """Renews the leases of all submissions of this process."""
