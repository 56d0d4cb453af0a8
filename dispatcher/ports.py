"""The engine's view of the outside: small Protocols. In-memory implementations are in dispatcher/memory, the real ones
in backends, quotas and consumers."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from dispatcher.wire.control import ControlRecord
from dispatcher.wire.envelope import Envelope
from dispatcher.wire.lease import LaneKind, LeaseAnswer, LeaseRequest
from dispatcher.wire.outcome import OutcomeRecord, Report

Done = Callable[[Exception | None], None]
"""Called once, from any thread, with None when the thing is stored, or with what went wrong. It must not raise."""


class Delivery(msgspec.Struct, gc=False):
    """One received envelope. handle: what the lane needs to ack it. received_s: monotonic."""

    envelope: Envelope
    handle: Any
    received_s: float


class LaneInfo(msgspec.Struct, frozen=True, gc=False):
    """A lane as a worker sees it. tier, weight (thousandths) and chunk (targets an envelope) are for the local pick and
    the prefetch; the ledger has its own, fresher ones. task: empty for lanes of many. light: it is known to
    hold little or nothing, and no memory need be set apart for it. partitions: of its topic, 0 for a plain one. app: of
    a side lane, whose channel is that of all in it. delay_s: of a retry lane."""

    name: str
    kind: LaneKind
    tier: str
    weight: int
    chunk: int
    task: str = ""
    channel: str = ""
    light: bool = False
    partitions: int = 0
    app: str = ""
    delay_s: int = 0


class WaitingLane(msgspec.Struct, frozen=True, gc=False):
    """The lane of a task that nobody is attached to, and the targets that wait in it as far as the registry knows."""

    name: str
    task: str
    tier: str
    targets: int


class Lanes(Protocol):
    """The lanes a worker is attached to. All calls come from the engine's thread."""

    def attach(self, lane: LaneInfo, prefetch_targets: int) -> None:
        """Attaches in the background; readiness is announced through the engine's inbox."""
        ...

    def detach(self, lane: str) -> None:
        """Lets go: what is not acked will be delivered to others."""
        ...

    def drain(self, lane: str, max_targets: int) -> tuple[list[Delivery], bool]:
        """What the lane has now, up to max_targets, in order; and whether it ran empty (it is then armed again and will
        announce itself when something arrives). Never blocks."""
        ...

    def ack(self, lane: str, deliveries: Sequence[Delivery]) -> None: ...

    def give_back(self, lane: str, deliveries: Sequence[Delivery]) -> None:
        """Lets go of these alone: they are delivered again after a while, to any worker."""
        ...


class EnvelopePublisher(Protocol):
    """Publishes envelopes to lanes (retries, moves)."""

    def publish(self, lane: str, envelopes: Sequence[Envelope], done: Done) -> None: ...


class OutcomeLog(Protocol):
    def publish(self, task: str, record: OutcomeRecord, done: Done) -> None:
        """Appends to the task's outcome topic."""
        ...


class DeadLetter(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Targets that failed for good, with the reason, or (with no targets) the body of a message that cannot be sent: an
    envelope of an unknown task, or what is no envelope, then without a task.

    Written before the outcome record that makes it final, so none is lost; copies are told apart by
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
    parts: int = 1
    """Which part of the body this is, from 0, and the number of parts."""


class DeadLetters(Protocol):
    def publish(self, letter: DeadLetter, done: Done) -> None:
        """Store a letter of any size, in parts where it is large. One that the broker refuses whatever is done is
        stored without its texts, so that it holds up nothing."""
        ...


class Ledger(Protocol):
    """Says who may send now. Raises Unreachable when Redis is gone; the same request may then be made again."""

    def lease(self, request: LeaseRequest) -> LeaseAnswer: ...


class LeaseCaller(Protocol):
    """Carries the engine's lease calls to the ledger, away from the engine's thread."""

    def ask(self, request: LeaseRequest, answered: Callable[[LeaseAnswer | None, Exception | None], None]) -> None:
        """Makes the call in a thread of its own; the engine has one under way at a time, and repeats it itself.
        `answered` is called once, from any thread."""
        ...


class FoldResult(msgspec.Struct, frozen=True):
    """cursor: where the fold stands now. applied: False if it stood elsewhere than expected (another folder was here).
    finished: tasks that by now have an outcome for every target."""

    applied: bool
    cursor: str
    finished: list[str] = []


class Fold(Protocol):
    """The view's end of the fold: counts, final bits and cursor change together or not at all."""

    def cursor(self, partition: int) -> str | None:
        """Where partition was read up to; None: from the beginning."""
        ...

    def apply(
        self,
        partition: int,
        expected: str | None,
        cursor: str,
        records: Sequence[bytes],
        positions: Sequence[str] | None = None,
    ) -> FoldResult:
        """Fold records. positions: of the records; one that is passed over is kept by its position."""
        ...


class Batch(msgspec.Struct, gc=False):
    """Granted envelopes of one lane on their way through a channel. use_by_s: monotonic, from before the grant was
    asked for. leased_s: when the grant came. tier: of the lane, as the channel is told."""

    lane: str
    claim: str
    channel: str
    deliveries: list[Delivery]
    use_by_s: float
    leased_s: float
    targets: int = 0
    tier: str = ""


class Courier(Protocol):
    """Runs the channels. `sent` is called once per batch, from any thread: with a report for each envelope, or None
    for the envelopes whose call was not started before the use-by."""

    def send(self, batch: Batch, sent: Callable[[Batch, Sequence[Report | None]], None]) -> None: ...

    def batch_limit(self, channel: str) -> int:
        """Most envelopes in one batch of this channel."""
        ...


class BatchChannel(Protocol):
    """Delivers to a provider, any number of envelopes a call.

    A class named as `module:Class` in the settings is constructed with its settings (a mapping, with the channel's name
    as `name`) and lives in the event loop of the courier's thread. The class needs no base class. If it has this one,
    type checkers compare the two, and `open` and `close` may be left out.
    """

    name: str
    """Name of the channel, as tasks give it."""
    timeout_s: float
    """A call never outlasts this; it is then cancelled and counts as RETRY."""
    concurrency: int
    """Most calls under way at once in a worker."""
    batch_limit: int
    """Most envelopes in one call."""

    async def open(self) -> None:
        """Connect, when the worker starts."""

    @abstractmethod
    async def deliver(self, envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:
        """Send the envelopes. Return a report for each, in order.

        tier is that of the lane they came from. Raising means RETRY for all of them, with the exception as reason.
        What is returned is checked (`dispatcher.verdicts.read_reports`).
        """
        ...

    async def close(self) -> None:
        """Let go of the connections, when the worker ends."""


Channel = BatchChannel
"""Its name in 0.2, for one release."""


class ControlLog(Protocol):
    def append(self, record: ControlRecord) -> str:
        """Stores the record and returns its position (sorts as text in topic order)."""
        ...
