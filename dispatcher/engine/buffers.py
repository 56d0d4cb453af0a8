"""The memory of one lane: runs of envelopes on their way from the lane to their ack."""

from collections import deque
from collections.abc import Sequence

from dispatcher.model.tier import Tier
from dispatcher.ports import Delivery, LaneInfo
from dispatcher.scheduling.scheduler import QueueEntry
from dispatcher.wire.lease import LaneAsk, LaneKind, Want

LATEST_DUE_MS = 3_600_000
"""Maximum delay of an attempt: the longest retry step, ten minutes, and the difference of workers' clocks."""
LONGEST_RUN = 1_000
"""Maximum envelopes in a run; keeps splitting a run cheap."""


class EnvelopeRun:
    """Envelopes of one task with consecutive sequences, in one state. One Want, grant or Run covers them all.

    - `size`: targets in each envelope.
    - `total`: targets in the first envelope of each sequence.
    - `hold_s`: how long the run waited after its last HELD answer.
    """

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
        self.total = envelope.size
        self.channel = envelope.channel
        self.not_before_ms = envelope.not_before_ms
        self.deliveries = [delivery]
        self.claim = ""
        self.use_by_s = 0.0
        self.leased_s = 0.0
        self.hold_s = 0.0

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
        head = self._twin()
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
        return Want(self.task, self.writer, self.attempt, self.first, len(self.deliveries), self.size, self.total)

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

    def _twin(self) -> "EnvelopeRun":
        twin = EnvelopeRun.__new__(EnvelopeRun)
        twin.task, twin.writer, twin.attempt, twin.first = self.task, self.writer, self.attempt, self.first
        twin.size, twin.total, twin.channel = self.size, self.total, self.channel
        twin.not_before_ms, twin.hold_s, twin.deliveries = self.not_before_ms, self.hold_s, self.deliveries
        twin.claim, twin.use_by_s, twin.leased_s = self.claim, self.use_by_s, self.leased_s
        return twin


def envelope_runs(deliveries: Sequence[Delivery]) -> tuple[list[EnvelopeRun], int]:
    """Group deliveries into runs, in order. Return the runs and the number of targets."""
    found: list[EnvelopeRun] = []
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
            found.append(last)
            room = LONGEST_RUN - 1
        following = envelope.sequence + 1
    return found, total


class Credit:
    """Envelopes that a lane may send through one channel now."""

    __slots__ = ("flow", "lane", "queue", "targets")

    def __init__(self, lane: "LaneBuffer") -> None:
        self.lane = lane
        self.queue: deque[EnvelopeRun] = deque()
        self.targets = 0
        self.flow: QueueEntry[Credit]
        """Set by the creator of this object."""


class LaneBuffer:
    """One lane of this worker and its buffered envelopes. Counts are in targets, except held_envelopes."""

    __slots__ = (
        "asked",
        "asked_targets",
        "closing",
        "credit",
        "credit_targets",
        "drain",
        "due_ms",
        "filling",
        "grants",
        "held_by_task",
        "held_envelopes",
        "held_targets",
        "info",
        "name",
        "out_targets",
        "parked",
        "ready",
        "received",
        "reopen",
        "short",
        "tier",
        "waiting",
        "waiting_targets",
    )

    def __init__(self, info: LaneInfo) -> None:
        self.name = info.name
        self.info = info
        self.tier = Tier(info.tier)
        self.waiting: deque[EnvelopeRun] = deque()
        """Not granted and not yet asked for, in order of delivery."""
        self.waiting_targets = 0
        self.asked: list[EnvelopeRun] = []
        """Part of the current lease call."""
        self.asked_targets = 0
        self.credit: dict[str, Credit] = {}
        """By channel."""
        self.credit_targets = 0
        self.held_envelopes = 0
        self.held_targets = 0
        self.held_by_task: dict[str, tuple[int, int]] = {}
        """Held envelopes and targets by task."""
        self.out_targets = 0
        """Sent or being settled; not yet acked."""
        self.grants = RateWindow()
        self.due_ms = 0
        """Due time of the first waiting envelope, if a timer is set for it."""
        self.drain: QueueEntry[LaneBuffer]
        """Its entry in the queue of lanes to drain; set by the creator of this object."""
        self.filling = False
        """True while it is drained until it is full or the lane is empty."""
        self.ready = False
        """True if there may be more to drain."""
        self.received = False
        """True once it has delivered something since it was attached."""
        self.parked = False
        self.short = False
        """True if its last answer was NO_CREDIT."""
        self.closing = False
        self.reopen: LaneInfo | None = None
        """To be attached again once it is detached."""

    @property
    def buffered_targets(self) -> int:
        """Return the targets in memory that are not yet sent."""
        return self.waiting_targets + self.asked_targets + self.credit_targets + self.held_targets

    @property
    def targets(self) -> int:
        """Return all targets in memory."""
        return self.buffered_targets + self.out_targets

    def append(self, deliveries: Sequence[Delivery], wall_ms: int) -> int:
        """Append drained deliveries and return their targets. An envelope that is due too late counts as due now; at
        the head of a shared lane it would block everything behind it."""
        found, targets = envelope_runs(deliveries)
        for part in found:
            if part.not_before_ms > wall_ms + LATEST_DUE_MS:
                part.not_before_ms = 0
        if found and self.waiting and found[0].continues(self.waiting[-1]):
            self.waiting[-1].deliveries.extend(found.pop(0).deliveries)
        self.waiting.extend(found)
        self.waiting_targets += targets
        return targets

    def put_back(self, stretch: EnvelopeRun) -> None:
        """Put a run back at the head of the waiting ones. Call this from the last run to the first."""
        stretch.claim = ""
        self.waiting_targets += stretch.targets
        if self.waiting and self.waiting[0].continues(stretch):
            stretch.deliveries.extend(self.waiting.popleft().deliveries)
        self.waiting.appendleft(stretch)

    def ask(self) -> LaneAsk:
        """Return this lane's part of a lease request."""
        info = self.info
        tier = str(self.tier) if info.kind == LaneKind.RETRY else ""
        demand = self.waiting_targets + self.asked_targets + self.credit_targets
        wants = [part.want() for part in self.asked]
        return LaneAsk(
            self.name, info.kind, tier, demand, wants, False, info.task, info.app, info.channel, info.delay_s
        )

    def take_wants(self, targets: int, most: int, wall_ms: int) -> list[EnvelopeRun]:
        """Move waiting runs that are due into the call: up to `targets`, at least one envelope."""
        waiting = self.waiting
        taken: list[EnvelopeRun] = []
        moved = 0
        while waiting and len(taken) < most and (targets > moved or not taken):
            head = waiting[0]
            if head.not_before_ms > wall_ms:
                break
            part = head.take_targets(targets - moved)
            if part is head:
                waiting.popleft()
            taken.append(part)
            moved += part.targets
        self.waiting_targets -= moved
        self.asked_targets += moved
        self.asked = taken
        return taken

    def hold(self, task: str, envelopes: int, targets: int) -> None:
        """Add to the counts of a task's held envelopes and targets; negative numbers subtract."""
        self.held_envelopes += envelopes
        self.held_targets += targets
        of_task, targets_of_task = self.held_by_task.pop(task, (0, 0))
        if of_task + envelopes:
            self.held_by_task[task] = of_task + envelopes, targets_of_task + targets

    def forget_unsent(self) -> list[EnvelopeRun]:
        """Drop waiting and granted runs; the broker still has them. Return the granted ones, to be given back."""
        granted = [stretch for credit in self.credit.values() for stretch in credit.queue]
        for credit in self.credit.values():
            credit.queue.clear()
            credit.targets = 0
        self.waiting.clear()
        self.held_by_task.clear()
        self.waiting_targets = self.credit_targets = self.held_targets = self.held_envelopes = 0
        return granted


class RateWindow:
    """Counts per half second: the current window and the one before."""

    __slots__ = ("before", "count", "since_s")

    LENGTH_S = 0.5

    def __init__(self) -> None:
        self.since_s = 0.0
        self.count = 0
        self.before = 0

    def add(self, count: int, now_s: float) -> None:
        if now_s - self.since_s >= self.LENGTH_S:
            self._turn(now_s)
        self.count += count

    def recent(self, now_s: float) -> int:
        """Return the larger of the two windows: the count of half a second."""
        if now_s - self.since_s >= self.LENGTH_S:
            self._turn(now_s)
        return self.count if self.count > self.before else self.before

    def _turn(self, now_s: float) -> None:
        self.before = self.count if now_s - self.since_s < 2 * self.LENGTH_S else 0
        self.count = 0
        self.since_s = now_s
