"""What a submission needs of Pulsar and Redis: small Protocols, so that it can be run against nothing and measured."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from dispatcher.clock import Clock
from dispatcher.model.view import Admission, HoldAction, SubmitLease
from dispatcher.ports import ControlLog
from dispatcher.wire.control import ControlRecord, Sealed, TaskRecord
from dispatcher.wire.submission import NOTHING_AHEAD, WrittenAhead
from dispatcher.wire.topics import Topics
from producers.settings import ProducerOptions
from producers.submit.renewals import Renewals


class ControlWriter(ControlLog, Protocol):
    """The control topic."""

    def append_many(self, records: Sequence[ControlRecord]) -> list[str]:
        """Stores the records in this order, with one wait for all; returns their positions. Raises Unreachable."""
        ...


class LaneWriter(Protocol):
    """Publishes the envelopes of one submission to its lane."""

    def send_many(self, bodies: Sequence[bytes]) -> None:
        """Queues them; waits while the bounded queue is full. Raises Unreachable once one could not be stored."""
        ...

    def confirmed(self) -> int:
        """How many are stored without a gap, from the first on. Any thread may ask."""
        ...

    def flush(self) -> None:
        """Returns when all are stored; raises Unreachable if that fails."""
        ...

    def close(self) -> None:
        """Lets go; what is not stored yet may or may not be."""
        ...


class LaneOpener(Protocol):
    def create(self, topic: str, partitions: int) -> None:
        """Topic (0 partitions: a plain one) and subscription, if they are not there."""
        ...

    def open(self, record: TaskRecord, first: Sequence[bytes] = ()) -> LaneWriter:
        """With a producer for each partition of the task's lane, set up for its envelopes. first: those that come
        first, encoded; they show whether compression saves anything."""
        ...


@dataclass(frozen=True, slots=True)
class Submission:
    """How far a task's submission has come. sequences: below it all envelopes are stored; digest is of their targets
    (once sealed: of the whole audience); published: targets in them (once sealed: the total). stopped: why it takes no
    more targets (cancelled, completed, ...), or empty; ended: whether that is final. shares_lane: whether it still does
    (lane: where its envelopes go now). edits: the number of the last edit of its message, 0 for none;
    edited_at: its position in the control topic, empty if that is not known. position: the record's. ahead: who submits
    it, and what is announced behind `published`."""

    record: TaskRecord
    sequences: int = 0
    published: int = 0
    digest: str = ""
    sealed: bool = False
    stopped: str = ""
    ended: bool = False
    shares_lane: bool = False
    edits: int = 0
    edited_at: str = ""
    lane: str = ""
    position: str = ""
    ahead: WrittenAhead = NOTHING_AHEAD


class InFlight(NamedTuple):
    """What is under way of a task. targets: under claims in force; claims: how many these are; sent: targets
    recorded as sent so far."""

    targets: int
    claims: int
    sent: int


class Registrar(Protocol):
    """The registry's part in a submission. Raises Unreachable when Redis is gone."""

    def apply(self, position: str, record: ControlRecord) -> None: ...

    def apply_all(self, records: Sequence[tuple[str, ControlRecord]]) -> None:
        """As `apply`, for many (position, record) in one round trip."""
        ...

    def submission(self, task: str) -> Submission | None:
        """None: no such task."""
        ...

    def submission_at(self, task: str, position: str) -> Submission:
        """Return the submission by the control topic up to a position: the view may be behind."""
        ...

    def in_flight(self, tasks: Sequence[str]) -> Mapping[str, InFlight]:
        """Of the known ones among the tasks, all at one moment."""
        ...

    def admit(self, record: TaskRecord, who: str = "") -> Admission:
        """Return whether a new task's app may have one more, and reserve its place for some seconds if so. The
        submitter that the record names also takes the lease of the submission. who: as shown to others."""
        ...

    def hold_submission(self, action: HoldAction, task: str, submitter: str, who: str = "") -> SubmitLease:
        """Take the lease of a task's submission unless another holds it, renew it, or release it."""
        ...

    def start_submission(self, position: str, record: TaskRecord, by: str) -> tuple[SubmitLease, Submission | None]:
        """Renew a submitter's lease, apply the task's record and read the submission back, in one round trip."""
        ...

    def seal_submission(self, position: str, seal: Sealed) -> bool:
        """Apply a seal if its submitter holds the lease, which ends with it. False: it does not; nothing changed."""
        ...


@dataclass(frozen=True, slots=True)
class CheckpointPace:
    """A checkpoint is due `first_s` after the start, then after `envelopes` or `longest_s`; not within `shortest_s`."""

    first_s: float = 0.2
    shortest_s: float = 0.5
    longest_s: float = 1.0
    envelopes: int = 20_000


@dataclass(frozen=True, slots=True)
class WindowPace:
    """When a window of an audience is closed: after this number of targets, envelopes or bytes, or once its oldest
    target is `oldest_s` old. A window is encoded before it is sent, and should still be in the processor's cache then:
    windows of 16 MB took a fifth more CPU. The first is small, so that a large list is not cut for long before its
    record is stored."""

    first_targets: int = 4_096
    targets: int = 131_072
    envelopes: int = 8_192
    bytes: int = 4 * 1024 * 1024
    oldest_s: float = 1.0


@dataclass(frozen=True, slots=True)
class LeasePace:
    """The lease of a submission is renewed every renew_s. Another's is looked at every poll_s; if it was renewed within
    watch_s, its holder lives. redis_s: how long a submission that is under way waits for Redis."""

    renew_s: float = 1.5
    poll_s: float = 0.1
    watch_s: float = 2.0
    redis_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Services:
    """The services of a submission. who: names this process to other submitters of a task. renewals: of the leases of
    all its submissions."""

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
    renewals: Renewals = field(default_factory=Renewals)
