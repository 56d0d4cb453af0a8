"""Runs of envelopes: the unit in which a lane's memory is counted, leased and sent."""

from collections.abc import Callable, Sequence
from enum import IntEnum

from dispatcher.model.flow_pause import flow_name
from dispatcher.ports import Delivery
from dispatcher.rounds import called_targets, longest_stay_ms, targets_due, turn_of
from dispatcher.wire.groups import TargetGroup
from dispatcher.wire.lease import Want

LONGEST_RUN = 1_000
"""Maximum envelopes in a run; keeps splitting a run cheap."""
CLOCKS_MS = 60_000
"""Maximum difference between the clocks of workers."""


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
        "groups",
        "hold_s",
        "leased_s",
        "not_before_ms",
        "open",
        "reopened",
        "size",
        "state",
        "task",
        "total",
        "turn_ms",
        "use_by_s",
        "writer",
    )

    def __init__(self, delivery: Delivery) -> None:
        envelope = delivery.envelope
        self.task = envelope.task
        self.writer = envelope.writer
        self.attempt = envelope.attempt
        self.first = envelope.sequence
        self.size = self.open = len(envelope.targets)
        """Targets in each envelope: those that are due, and all."""
        self.groups: Sequence[TargetGroup] | None = envelope.groups
        """How the targets of each envelope wait, if they do not wait alike. Such a run is never joined with another."""
        self.turn_ms = 0
        """Latest due time of the targets that are due in this round."""
        self.reopened = False
        """Whether a pause of its flow was ended before its time."""
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
    def damage(self) -> str:
        """Why none of it can be sent; empty if it can. Such a run has one envelope."""
        return self.deliveries[0].damage

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

    def limit_due(self, wall_ms: int, delay_s: int) -> None:
        """Count a run that is due too late for its lane as due now: at the head it would block all behind it. It is
        damaged, or Redis' clock was set back. Its targets still wait until they are due, in another retry lane."""
        if self.not_before_ms > wall_ms + CLOCKS_MS + longest_stay_ms(delay_s):
            self.not_before_ms = 0

    def choose_due(self, wall_ms: int) -> None:
        """Choose the targets that are due now; only these are leased and sent. Call this before the run is asked
        for."""
        if self.groups is not None:
            self.turn_ms = turn_of(self.groups, wall_ms, reopened=self.reopened)
            self.size = targets_due(self.groups, self.turn_ms)

    @property
    def waits_for_flow(self) -> bool:
        """Whether a target waits for the end of a pause of its flow."""
        return self.groups is not None and any(group.waits_for_flow for group in self.groups)

    @property
    def flow(self) -> str:
        """The app of its task on its channel."""
        return flow_name(self.channel, self.deliveries[0].envelope.app)

    def reopen(self, is_reopened: Callable[[str], bool], wall_ms: int) -> bool:
        """Let the run leave its retry lane if it waits for a pause of its flow and somebody has ended that. Return
        whether it does."""
        if self.reopened or self.not_before_ms <= wall_ms or not self.waits_for_flow or not is_reopened(self.flow):
            return False
        if turn_of(self.groups or (), wall_ms, reopened=True) <= wall_ms:
            return False
        self.reopened, self.not_before_ms = True, wall_ms
        return True

    def regroup(self, groups: Sequence[TargetGroup]) -> None:
        """Take the view's groups, if any, instead of the envelope's: a claim of this round ended without a record."""
        if groups:
            self.groups = groups

    def called(self) -> list[int]:
        """Return the indexes of the targets to send, in its (first) envelope."""
        return called_targets(self.deliveries[0].envelope, self.groups, self.turn_ms)

    @property
    def tries(self) -> int:
        """Sum of the tries of its envelopes' targets, each."""
        if self.groups is None:
            return self.attempt * self.open
        return sum(group.tries * group.count for group in self.groups)

    def want(self) -> Want:
        return Want(
            task=self.task,
            writer=self.writer,
            attempt=self.attempt,
            first=self.first,
            count=len(self.deliveries),
            size=self.size,
            total=self.total,
            open=self.open,
            tries=self.tries,
            due_ms=max(0, self.turn_ms),
            first_ms=self._first_ms(),
        )

    def _first_ms(self) -> int:
        """Return the time of the first call of a target, if the task bounds its age; otherwise 0."""
        if not self.deliveries[0].envelope.retry_for_ms:
            return 0
        return min((group.first_ms for group in self.groups or () if group.first_ms), default=0)

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
            and other.groups is None
            and self.groups is None
            and not (self.damage or other.damage)
            and len(other.deliveries) + len(self.deliveries) <= LONGEST_RUN
        )

    def _copy(self) -> "EnvelopeRun":
        copy = EnvelopeRun.__new__(EnvelopeRun)
        copy.task, copy.writer, copy.attempt, copy.first = self.task, self.writer, self.attempt, self.first
        copy.size, copy.total, copy.channel = self.size, self.total, self.channel
        copy.open, copy.groups, copy.turn_ms, copy.reopened = self.open, self.groups, self.turn_ms, self.reopened
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
            and envelope.groups is None
            and last.groups is None
            and not delivery.damage
        ):
            last.deliveries.append(delivery)
            room -= 1
        else:
            last = EnvelopeRun(delivery)
            runs.append(last)
            room = 0 if delivery.damage else LONGEST_RUN - 1
        following = envelope.sequence + 1
    return runs, total
