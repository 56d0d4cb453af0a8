"""Runs of envelopes: the unit in which a lane's memory is counted, leased and sent."""

from collections.abc import Sequence
from enum import IntEnum

from dispatcher.ports import Delivery
from dispatcher.wire.lease import Want

LONGEST_RUN = 1_000
"""Maximum envelopes in a run; keeps splitting a run cheap."""


class RunState(IntEnum):
    """Where a run of envelopes is on its way from its lane to its ack."""

    WAITING = 0
    """Received; not granted and not yet asked for."""
    ASKED = 1
    """Part of the current lease call."""
    CREDIT = 2
    """Granted; may be sent until its use-by."""
    HELD = 3
    """Set aside, to be asked about after a while or in a call of its own."""
    OUT = 4
    """In its channel or being settled; not yet acked."""
    GONE = 5
    """Acked, or left to the broker, which delivers it again."""


_FIRST = RunState.WAITING


class EnvelopeRun:
    """Envelopes of one task with consecutive sequences, in one state. One Want, grant or Run covers them all."""

    __slots__ = (
        "attempt",
        "channel",
        "claim",
        "deliveries",
        "first",
        "hold_s",
        "leased_s",
        "not_before_ms",
        "size",
        "state",
        "task",
        "total",
        "use_by_s",
        "writer",
    )

    def __init__(self, delivery: Delivery) -> None:
        envelope = delivery.envelope
        self.task = envelope.task
        self.writer = envelope.writer
        self.attempt = envelope.attempt
        self.first = envelope.sequence
        self.size = len(envelope.targets)
        """Targets in each envelope."""
        self.total = envelope.size
        """Targets in attempt 0 of each sequence."""
        self.channel = envelope.channel
        self.not_before_ms = envelope.not_before_ms
        self.deliveries = [delivery]
        self.claim = ""
        self.use_by_s = 0.0
        self.leased_s = 0.0
        self.hold_s = 0.0
        """How long the run was held after its last HELD answer."""
        self.state = _FIRST
        """Changed by LaneBuffer only."""

    @property
    def count(self) -> int:
        return len(self.deliveries)

    @property
    def targets(self) -> int:
        return len(self.deliveries) * self.size

    def take(self, count: int) -> "EnvelopeRun":
        """Split off the first `count` envelopes. Return the run itself if that is all of them."""
        if count >= len(self.deliveries):
            return self
        head = self._copy()
        head.deliveries = self.deliveries[:count]
        del self.deliveries[:count]
        self.first += count
        return head

    def take_targets(self, targets: int) -> "EnvelopeRun":
        """Split off as many envelopes as fit in `targets`, at least one."""
        return self.take(max(1, targets // self.size) if self.size else len(self.deliveries))

    def granted(self, claim: str, use_by_s: float, leased_s: float) -> "EnvelopeRun":
        self.claim, self.use_by_s, self.leased_s = claim, use_by_s, leased_s
        return self

    def want(self) -> Want:
        return Want(
            task=self.task,
            writer=self.writer,
            attempt=self.attempt,
            first=self.first,
            count=len(self.deliveries),
            size=self.size,
            total=self.total,
        )

    def continues(self, other: "EnvelopeRun") -> bool:
        """Return whether this run continues where `other` ends. Neither may be granted."""
        return (
            other.first + len(other.deliveries) == self.first
            and other.task == self.task
            and other.size == self.size
            and other.attempt == self.attempt
            and other.writer == self.writer
            and other.total == self.total
            and other.not_before_ms == self.not_before_ms
            and other.hold_s == self.hold_s
            and len(other.deliveries) + len(self.deliveries) <= LONGEST_RUN
        )

    def _copy(self) -> "EnvelopeRun":
        copy = EnvelopeRun.__new__(EnvelopeRun)
        copy.task, copy.writer, copy.attempt, copy.first = self.task, self.writer, self.attempt, self.first
        copy.size, copy.total, copy.channel = self.size, self.total, self.channel
        copy.not_before_ms, copy.hold_s, copy.deliveries = self.not_before_ms, self.hold_s, self.deliveries
        copy.claim, copy.use_by_s, copy.leased_s, copy.state = self.claim, self.use_by_s, self.leased_s, self.state
        return copy


def envelope_runs(deliveries: Sequence[Delivery]) -> tuple[list[EnvelopeRun], int]:
    """Group deliveries into runs, in order. Return the runs and the number of targets."""
    runs: list[EnvelopeRun] = []
    total = following = room = 0
    last: EnvelopeRun | None = None
    for delivery in deliveries:
        envelope = delivery.envelope
        size = len(envelope.targets)
        total += size
        if (
            last is not None
            and envelope.sequence == following
            and envelope.task == last.task
            and size == last.size
            and envelope.attempt == last.attempt
            and envelope.writer == last.writer
            and envelope.not_before_ms == last.not_before_ms
            and envelope.size == last.total
            and room
        ):
            last.deliveries.append(delivery)
            room -= 1
        else:
            last = EnvelopeRun(delivery)
            runs.append(last)
            room = LONGEST_RUN - 1
        following = envelope.sequence + 1
    return runs, total
