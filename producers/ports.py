"""The parts of Pulsar and Redis a submission needs, as small Protocols, so that it can be measured without servers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from dispatcher.clock import Clock
from dispatcher.model.view import Admission, HoldAction, InFlight, SubmitLease
from dispatcher.ports import ControlLog
from dispatcher.wire.control import ControlRecord, Sealed, TaskRecord
from dispatcher.wire.submission import Submission
from dispatcher.wire.topics import Topics
from producers.settings import ProducerOptions
from producers.submit.renewals import Renewals


class ControlWriter(ControlLog, Protocol):
    """The control topic."""

    def append_many(self, records: Sequence[ControlRecord]) -> list[str]:
        """Store the records in this order with one wait for all; return their positions. Raises Unreachable."""
        ...


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

    def open(self, record: TaskRecord, first: Sequence[bytes] = ()) -> LaneWriter:
        """Open a producer for each partition of the task's lane, set up for its envelopes.

        first: the first envelopes, encoded; they show whether compression is worthwhile.
        """
        ...


class Registrar(Protocol):
    """The registry operations that a submission needs. Raises Unreachable when Redis cannot be reached."""

    def apply(self, position: str, record: ControlRecord) -> None: ...

    def apply_all(self, records: Sequence[tuple[str, ControlRecord]]) -> None:
        """Apply many (position, record) pairs like `apply`, in one round trip."""
        ...

    def submission(self, task: str) -> Submission | None:
        """Return the submission; None if the task does not exist."""
        ...

    def submission_at(self, task: str, position: str) -> Submission:
        """Return the submission according to the control topic up to a position; the view may be behind."""
        ...

    def in_flight(self, tasks: Sequence[str]) -> Mapping[str, InFlight]:
        """Return what is in flight of those tasks that are known, all at one moment."""
        ...

    def admit(self, record: TaskRecord, who: str = "") -> Admission:
        """Return whether a new task's app may have one more task. If so, reserve its place for some seconds.

        The submitter that the record names also takes the lease of the submission. who: the name shown to others.
        """
        ...

    def hold_submission(self, action: HoldAction, task: str, submitter: str, who: str = "") -> SubmitLease:
        """Take the lease of a task's submission unless another submitter holds it, renew it, or release it."""
        ...

    def start_submission(self, position: str, record: TaskRecord, by: str) -> tuple[SubmitLease, Submission | None]:
        """Renew a submitter's lease, apply the task's record and read the submission back, in one round trip."""
        ...

    def seal_submission(self, position: str, seal: Sealed) -> bool:
        """Apply a seal if its submitter holds the lease, and end the lease. Return False, without a change, if it does
        not."""
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
    """When to close a window of an audience: after this many targets, envelopes or bytes, or at the age `oldest_s`.

    The age is that of the window's oldest target. A window is encoded before it is sent and should still be in the
    processor's cache when sent: windows of 16 MB took a fifth more CPU. The first window is small, so that the record
    of a large list is stored without a long wait for cutting.
    """

    first_targets: int = 4_096
    targets: int = 131_072
    envelopes: int = 8_192
    bytes: int = 4 * 1024 * 1024
    oldest_s: float = 1.0


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


@dataclass(frozen=True, slots=True)
class Services:
    """The services that a submission uses."""

    control: ControlWriter
    registry: Registrar
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
    renewals: Renewals = field(default_factory=Renewals)
    """Renews the leases of all submissions of this process."""


class Readiness(Protocol):
    """The epoch in Redis, as far as submissions and controls need it. Raises Unreachable."""

    def ready(self) -> bool:
        """Return whether the view is complete."""
        ...
