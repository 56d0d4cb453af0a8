"""What a lane holds in memory: stretches of envelopes on their way from the lane to its ack."""

from collections import deque
from collections.abc import Sequence

from dispatcher.model.tier import Tier
from dispatcher.ports import Delivery, LaneInfo
from dispatcher.scheduling.scheduler import QueueEntry
from dispatcher.wire.lease import LaneAsk, LaneKind, Want

LATEST_DUE_MS = 3_600_000
"""Maximum delay of an attempt: the longest retry step, ten minutes, and the difference of workers' clocks."""
LONGEST_RUN = 1_000
"""Envelopes; keeps the cutting of a stretch cheap."""


class EnvelopeRun:
    """Envelopes of one task with consecutive sequences, in one state: what a Want, a grant and a Run name at once.

    size: targets in each; total: targets in the first envelope of each sequence; hold_s: how long it waited when it was
    last answered HELD.
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
        """Cuts the first `count` envelopes off; all of them: the stretch itself."""
        if count >= len(self.deliveries):
            return self
        head = self._twin()
        head.deliveries = self.deliveries[:count]
        del self.deliveries[:count]
        self.first += count
        return head

    def take_targets(self, targets: int) -> "EnvelopeRun":
        """Cuts off as many envelopes as fit in `targets`, at least one."""
        return self.take(max(1, targets // self.size) if self.size else len(self.deliveries))

    def granted(self, claim: str, use_by_s: float, leased_s: float) -> "EnvelopeRun":
        self.claim, self.use_by_s, self.leased_s = claim, use_by_s, leased_s
        return self

    def want(self) -> Want:
        return Want(self.task, self.writer, self.attempt, self.first, len(self.deliveries), self.size, self.total)

    def continues(self, other: "EnvelopeRun") -> bool:
        """Whether this one goes on where `other` (not granted either) ends."""
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
    """Groups deliveries, in their order, into stretches; and counts their targets."""
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
    """What a lane may send through one channel now."""

    __slots__ = ("flow", "lane", "queue", "targets")

    def __init__(self, lane: "LaneBuffer") -> None:
        self.lane = lane
        self.queue: deque[EnvelopeRun] = deque()
        self.targets = 0
        self.flow: QueueEntry[Credit]
        """Set by the one who made it."""


class LaneBuffer:
    """One lane of this worker and the envelopes it holds of it. Counts are of targets, held_envelopes excepted."""

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
        """Not granted, to be asked for; in order of delivery."""
        self.waiting_targets = 0
        self.asked: list[EnvelopeRun] = []
        """In the lease call under way."""
        self.asked_targets = 0
        self.credit: dict[str, Credit] = {}
        """By channel."""
        self.credit_targets = 0
        self.held_envelopes = 0
        self.held_targets = 0
        self.held_by_task: dict[str, tuple[int, int]] = {}
        """Envelopes and targets that are held, by task."""
        self.out_targets = 0
        """Sent or being settled; not yet acked."""
        self.grants = RateWindow()
        self.due_ms = 0
        """When its head is due, if there is a timer for it."""
        self.drain: QueueEntry[LaneBuffer]
        """Its place among the lanes to drain; set by the one who made it."""
        self.filling = False
        """Is being drained until it is full or the lane empty."""
        self.ready = False
        """May have more to drain."""
        self.received = False
        """Has brought something since it was attached."""
        self.parked = False
        self.short = False
        """Its last answer said NO_CREDIT."""
        self.closing = False
        self.reopen: LaneInfo | None = None
        """To be attached again once it is detached."""

    @property
    def buffered_targets(self) -> int:
        """Held and not yet on their way."""
        return self.waiting_targets + self.asked_targets + self.credit_targets + self.held_targets

    @property
    def targets(self) -> int:
        """Held in all."""
        return self.buffered_targets + self.out_targets

    def append(self, deliveries: Sequence[Delivery], wall_ms: int) -> int:
        """Takes what was drained. Returns its targets. One that is due too late counts as due: at the head of a lane
        of many it would hold up all behind it."""
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
        """To the head of what waits. Call it from the last to the first."""
        stretch.claim = ""
        self.waiting_targets += stretch.targets
        if self.waiting and self.waiting[0].continues(stretch):
            stretch.deliveries.extend(self.waiting.popleft().deliveries)
        self.waiting.appendleft(stretch)

    def ask(self) -> LaneAsk:
        """Return what the ledger is asked for this lane."""
        info = self.info
        tier = str(self.tier) if info.kind == LaneKind.RETRY else ""
        demand = self.waiting_targets + self.asked_targets + self.credit_targets
        wants = [part.want() for part in self.asked]
        return LaneAsk(
            self.name, info.kind, tier, demand, wants, False, info.task, info.app, info.channel, info.delay_s
        )

    def take_wants(self, targets: int, most: int, wall_ms: int) -> list[EnvelopeRun]:
        """Moves the head of what waits and is due into the call: up to `targets` (at least one envelope)."""
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
        """Count more envelopes of a task that are held, or fewer."""
        self.held_envelopes += envelopes
        self.held_targets += targets
        of_task, targets_of_task = self.held_by_task.pop(task, (0, 0))
        if of_task + envelopes:
            self.held_by_task[task] = of_task + envelopes, targets_of_task + targets

    def forget_unsent(self) -> list[EnvelopeRun]:
        """Drops what waits and what is granted (the broker has it still). Returns the granted, to be given back."""
        granted = [stretch for credit in self.credit.values() for stretch in credit.queue]
        for credit in self.credit.values():
            credit.queue.clear()
            credit.targets = 0
        self.waiting.clear()
        self.held_by_task.clear()
        self.waiting_targets = self.credit_targets = self.held_targets = self.held_envelopes = 0
        return granted


class RateWindow:
    """Counts per half second: the present window and the one before."""

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
        """The larger of the two windows: what half a second brings."""
        if now_s - self.since_s >= self.LENGTH_S:
            self._turn(now_s)
        return self.count if self.count > self.before else self.before

    def _turn(self, now_s: float) -> None:
        self.before = self.count if now_s - self.since_s < 2 * self.LENGTH_S else 0
        self.count = 0
        self.since_s = now_s
