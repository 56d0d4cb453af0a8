"""The engine's ports to the outside: small Protocols. In-memory implementations are in lab/simulator and in
tests/unit, the real ones in backends, quotas and consumers."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, NamedTuple, Protocol

import msgspec

from dispatcher.channels.calls import ProviderCall
from dispatcher.wire.control import ControlRecord
from dispatcher.wire.envelope import Envelope
from dispatcher.wire.groups import Time
from dispatcher.wire.lease import LaneKind, LeaseAnswer, LeaseRequest
from dispatcher.wire.outcome import OutcomeRecord, Report

Done = Callable[[Exception | None], None]
"""Called once, from any thread: with None when the thing is stored, or with the error. It must not raise."""


class Delivery(msgspec.Struct, gc=False):
    """One envelope as received from a lane."""

    envelope: Envelope
    handle: Any
    """Used by the lane to ack it."""
    received_s: float
    """Monotonic."""
    damage: str = ""
    """Why none of it can be sent; empty if it can."""


class LaneInfo(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A lane as a worker sees it. tier, weight and chunk are for the local pick and the prefetch; the ledger has its
    own, more recent values."""

    name: str
    kind: LaneKind
    tier: str
    weight: int
    """In thousandths."""
    chunk: int
    """Targets per envelope."""
    task: str = ""
    """The task that owns the lane; empty for shared lanes."""
    channel: str = ""
    """Channel of its task, or of everything in a side lane; empty for other lanes."""
    nearly_empty: bool = False
    """Whether it is known to hold little or nothing, so that no memory need be reserved for it."""
    partitions: int = 0
    """Partitions of its topic; 0 for a plain topic."""
    app: str = ""
    """App of a side lane."""
    delay_s: int = 0
    """Delay of a retry lane."""


class WaitingLane(msgspec.Struct, frozen=True, gc=False):
    """The lane of a task without an attached worker, and the targets waiting in it as far as the registry knows."""

    name: str
    task: str
    tier: str
    targets: int


class Lanes(Protocol):
    """The lanes that a worker is attached to. Only the engine's thread calls it."""

    def attach(self, lane: LaneInfo, prefetch_targets: int) -> None:
        """Attach in the background; readiness is announced through the engine's inbox."""
        ...

    def detach(self, lane: str) -> None:
        """Detach; unacked deliveries go to other workers."""
        ...

    def drain(self, lane: str, max_targets: int) -> tuple[list[Delivery], bool]:
        """Return the lane's current deliveries in order, up to `max_targets`, and whether it ran empty. An empty lane
        announces itself again when something arrives. Never blocks."""
        ...

    def ack(self, lane: str, deliveries: Sequence[Delivery]) -> None:
        """Ack deliveries: the broker does not deliver them again."""
        ...

    def give_back(self, lane: str, deliveries: Sequence[Delivery]) -> None:
        """Release these deliveries and no others: the broker delivers them again after a while, to any worker."""
        ...


class EnvelopePublisher(Protocol):
    """Publishes envelopes to lanes (retries, moves)."""

    def publish(self, lane: str, envelopes: Sequence[Envelope], done: Done) -> None: ...


class OutcomeLog(Protocol):
    def publish(self, task: str, record: OutcomeRecord, done: Done) -> None:
        """Append to the task's outcome topic."""
        ...


class OutcomeTopics(Protocol):
    """The outcome topics by number. Raises Unreachable."""

    def append(self, partition: int, record: OutcomeRecord) -> object:
        """Store a record at the end of one topic; return when it is stored."""
        ...


class DeadLetter(msgspec.Struct, array_like=True, frozen=True, gc=False, kw_only=True):
    """Targets that were given up, with the reasons, or a message that cannot be sent. Targets that a provider called
    invalid are named in outcome records instead.

    A message that cannot be sent has a body and no targets. It is an envelope of an unknown task; or it is not an
    envelope at all, and then `task` is empty. A letter with targets and a body is of an envelope that was set apart:
    its variables may be lost, so its targets are not sent again.

    Letters are written before the outcome record that makes the failure final, so none is lost. Copies have the same
    (task, writer, sequence, position, part).
    """

    format: int
    task: str
    writer: str
    sequence: int
    attempt: int
    at_ms: int
    channel: str
    positions: list[int]
    targets: list[str]
    outcomes: list[int]
    reasons: list[str]
    body: bytes = b""
    lane: str = ""
    """Lane of the message with this body."""
    part: int = 0
    """Number of this part of the body, from 0."""
    parts: int = 1
    """Number of parts of the body."""
    app: str = ""
    """App of the task; empty if there is no envelope."""
    variables: list[dict[str, Any] | None] | None = None
    """One entry per target, None for a target without variables; None if no target has any."""
    first_call_ms: Time = 0
    """Wall time of the earliest first call of these targets; 0 if it is not known."""

    @property
    def is_set_apart(self) -> bool:
        """Whether its envelope could not be read or settled."""
        return bool(self.targets) and bool(self.body)


class DeadLetters(Protocol):
    def publish(self, letter: DeadLetter, done: Done) -> None:
        """Store a letter of any size, in parts if it is large. If the broker refuses even those, store it without its
        texts, so that it blocks nothing."""
        ...


class Ledger(Protocol):
    """Decides who may send now. Raises Unreachable when Redis is down; the same request may then be repeated."""

    def lease(self, request: LeaseRequest) -> LeaseAnswer: ...


class LeaseCaller(Protocol):
    """Carries the engine's lease calls to the ledger, outside the engine's thread."""

    def ask(self, request: LeaseRequest, answered: Callable[[LeaseAnswer | None, Exception | None], None]) -> None:
        """Make the call in a thread of its own. The engine makes one call at a time and repeats it itself. `answered`
        is called once, from any thread."""
        ...


class FoldResult(msgspec.Struct, frozen=True):
    """How far a fold got, and the tasks that it completed."""

    applied: bool
    """False if the cursor was not at the expected position (another folder was active)."""
    cursor: str
    """The current position of the fold."""
    finished: list[str] = []
    """Tasks that now have an outcome for every target."""


class Batch(msgspec.Struct, gc=False, kw_only=True):
    """Granted envelopes of one lane on their way through a channel."""

    lane: str
    claim: str
    channel: str
    deliveries: list[Delivery]
    use_by_s: float
    """Monotonic; counts from before the grant was requested."""
    leased_s: float
    """When the grant arrived."""
    targets: int = 0
    tier: str = ""
    """Tier of the lane, as passed to the channel."""
    flow: str = ""
    """See Courier.flow."""


class Courier(Protocol):
    """Runs the channels: sends batches and reports on each envelope."""

    def send(self, batch: Batch, sent: Callable[[Batch, Sequence[Report | None]], None]) -> None:
        """Send a batch through its channel. `sent` is called once, from any thread, with a report for each envelope;
        None for an envelope whose call did not start before the use-by."""
        ...

    def flow(self, channel: str, app: str) -> str:
        """Return the name of what has limits of its own for an app's envelopes in a channel: a credential, an origin,
        or the whole channel."""
        ...

    def batch_limit(self, channel: str) -> int:
        """Return the maximum envelopes in one batch of this channel."""
        ...


class _AnyChannel(Protocol):
    """The settings and the life of every channel."""

    name: str
    """Name of the channel, as used in tasks."""
    timeout_s: float
    """Maximum duration of a call; it is then cancelled, and what became of its targets is UNKNOWN."""
    concurrency: int
    """Maximum calls under way at once in a worker."""
    batch_limit: int
    """Maximum envelopes in one call."""

    async def open(self) -> None:
        """Connect, when the worker starts."""

    async def close(self) -> None:
        """Close the connections, when the worker ends."""


class BatchChannel(_AnyChannel, Protocol):
    """Delivers to a provider, any number of envelopes per call.

    A class named as `module:Class` in the settings is constructed with its settings (a mapping, with the channel's name
    as `name`) and lives in the event loop of the courier's thread. The class needs no base class. With this base class,
    type checkers compare the two, and `open` and `close` may be left out.
    """

    @abstractmethod
    async def deliver(self, envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:
        """Send the envelopes. Return a report for each, in order.

        `tier` is that of their lane. An exception means UNKNOWN for all of them, with the exception as reason. The
        returned reports are checked (`dispatcher.verdicts.read_reports`).
        """
        ...


class TargetChannel(_AnyChannel, Protocol):
    """Delivers to a provider that is asked target by target.

    Like BatchChannel, but a call reports on each target as soon as it is judged. When it ends, by returning, raising or
    at its time limit, what was reported stays; started targets are UNKNOWN, and the others are UNSENT. A
    target whose `start` returns False must not be sent.
    """

    @abstractmethod
    async def deliver_targets(self, call: ProviderCall) -> None:
        """Send the targets of the call, and report on each in the call."""
        ...


AnyChannel = BatchChannel | TargetChannel


class ControlLog(Protocol):
    """Appends to the control topic. Raises Unreachable."""

    def append(self, record: ControlRecord) -> str:
        """Store the record and return its position (sorts as text in topic order)."""
        ...

    def append_many(self, records: Sequence[ControlRecord]) -> list[str]:
        """Store the records in this order with one wait for all; return their positions."""
        ...


class LaneTopics(Protocol):
    """The topics of lanes. Every method raises Unreachable if Pulsar cannot be reached."""

    def list_topics(self, namespace: str) -> Sequence[str]:
        """Return the full names of the topics."""
        ...

    def backlog(self, topic: str) -> int:
        """Return the number of unacknowledged entries. Raises NotFound."""
        ...

    def delete_topic(self, topic: str) -> bool:
        """Delete a topic. Return False if somebody is attached, True if it is gone."""
        ...


class StoredRecord(NamedTuple):
    """A record of a topic."""

    position: str
    """Sorts as text in topic order."""
    body: bytes
    key: str = ""
    """The key it was published with."""


class RecordReader(Protocol):
    """Reads one topic from a position on, without a subscription."""

    def read(self, max_records: int, timeout_s: float) -> Sequence[StoredRecord]:
        """Return the available records, at most `max_records`. Wait up to `timeout_s` for the first one. Raises
        Unreachable."""
        ...

    def at_end(self) -> bool:
        """Return whether everything stored by now has been read. Raises Unreachable."""
        ...

    def close(self) -> None: ...


def records_to_end(reader: RecordReader) -> Iterator[StoredRecord]:
    """Yield the records up to the topic's present end, and close the reader. Raises Unreachable."""
    with closing(reader):
        while not reader.at_end():
            yield from reader.read(1_000, 1.0)


OpenReader = Callable[[str | None], RecordReader]
"""Opens a reader after a position; None: at the topic's beginning. Raises Unreachable."""
