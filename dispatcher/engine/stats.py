"""Counters of the engine, and the outcomes that it knows and no topic has stored.

Counters are plain numbers, written only by the engine's thread; others may read them at any time.
"""

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import takewhile
from typing import NamedTuple

from dispatcher.analysis.histogram import Histogram
from dispatcher.engine.buffers import CREDIT, OUT, BufferTotals
from dispatcher.engine.runs import EnvelopeRun
from dispatcher.model.tier import TIERS, Tier
from dispatcher.model.view import WAIT_BUCKETS_MS, TierStats
from dispatcher.settle import Draft

LATE_S = 1.0
"""A record is late after this time, which is longer than it takes while Pulsar answers. A heartbeat reports it
before a new view grants anything: REPORT_MS in backends/redis/keys.py is longer."""
MAX_TASKS = 5_000
"""Maximum tasks named. A heartbeat with that many has 200 kB. A new view does not hold back more of them."""


class LateRecords(NamedTuple):
    """Outcomes that have waited too long for their record."""

    since_s: float
    """When the oldest became known (monotonic)."""
    targets: int
    tasks: list[str]
    """The tasks with such outcomes, the oldest first; at most MAX_TASKS."""


class UnrecordedOutcomes:
    """Tracks the outcomes that no topic has stored yet, by the drafts of their records, the oldest first."""

    def __init__(self) -> None:
        self._since: dict[Draft, float] = {}

    def add(self, draft: Draft, since_s: float) -> None:
        """Track a draft from its first outcome. Call `forget` once its record is stored."""
        self._since[draft] = since_s

    def forget(self, draft: Draft) -> None:
        """Remove a draft whose record is stored, or never will be."""
        self._since.pop(draft, None)

    def late(self, now_s: float) -> LateRecords | None:
        """Return the outcomes that have waited too long; None if there are none."""
        late = list(takewhile(lambda item: now_s - item[1] >= LATE_S, self._since.items()))
        if not late:
            return None
        tasks = dict.fromkeys(draft.task for draft, _ in late)
        return LateRecords(late[0][1], sum(draft.targets for draft, _ in late), list(tasks)[:MAX_TASKS])


class WaitTimes(Histogram):
    """Durations of envelopes in ms."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(WAIT_BUCKETS_MS)

    def add_published(self, part: EnvelopeRun, wall_ms: float) -> None:
        """Add the age of each envelope of `part`. Cheap when all fall into one bucket."""
        deliveries = part.deliveries
        first = last = wall_ms - deliveries[0].envelope.published_ms
        if len(deliveries) > 1:
            last = wall_ms - deliveries[-1].envelope.published_ms
        if first == last or bisect_left(WAIT_BUCKETS_MS, first) == bisect_left(WAIT_BUCKETS_MS, last):
            self.add((first + last) / 2, len(deliveries))
            return
        for delivery in deliveries:
            self.add(wall_ms - delivery.envelope.published_ms)


@dataclass
class TierCounts:
    """Counts of one tier since the start."""

    granted: int = 0
    """Targets granted."""
    sent: int = 0
    """Targets sent, without those that the provider cannot have taken."""
    envelopes: int = 0
    """Envelopes sent."""
    wait: WaitTimes = field(default_factory=WaitTimes)
    """Waits of the envelopes, from published to sent."""


@dataclass(kw_only=True)
class EngineStats:
    """Counters (since the start) and gauges of one engine."""

    tiers: dict[Tier, TierCounts] = field(default_factory=lambda: {tier: TierCounts() for tier in TIERS})
    outcomes: defaultdict[tuple[Tier, str, int], int] = field(default_factory=lambda: defaultdict(int))
    """Targets by (tier, channel, Outcome value)."""
    stages: dict[str, WaitTimes] = field(
        default_factory=lambda: {name: WaitTimes() for name in ("received", "leased", "sent", "settled")}
    )
    """Envelopes by stage: `received` (since published), `leased` (since received), `sent` (since leased) and `settled`
    (since sent)."""
    received: int = 0
    acked: int = 0
    retried: int = 0
    """Targets."""
    unknown: int = 0
    """Targets that a provider may have taken without an answer."""
    given_back: int = 0
    """Targets."""
    republished: int = 0
    """Envelopes."""
    moved: int = 0
    """Envelopes."""
    dropped: int = 0
    """Envelopes."""
    dead_lettered: int = 0
    """Envelopes."""
    set_apart: int = 0
    """Envelopes that could not be read or settled."""
    stored_again: int = 0
    """Things published again because a receipt was missing."""
    lease_calls: int = 0
    lease_errors: int = 0
    clock_stops: int = 0
    """Number of times the ledger's time showed that our clock had stopped."""
    given_back_refused: int = 0
    """Returns of credit that the ledger could not carry out."""

    lanes: int = 0
    buffers: BufferTotals = field(default_factory=BufferTotals)
    in_flight_batches: int = 0
    in_flight_targets: int = 0
    unsettled_targets: int = 0
    in_channels: dict[str, int] = field(default_factory=dict)
    """Task -> how long (ms) some of it has been in its channel, waiting for a slot or an answer."""
    late_records: LateRecords | None = None
    """Outcomes that Pulsar should have stored by now."""

    @property
    def parked_lanes(self) -> int:
        return self.buffers.parked_lanes

    @property
    def buffered_targets(self) -> int:
        """Return the targets in memory that are not yet sent."""
        return self.buffers.targets_in_memory - self.buffers.targets[OUT]

    @property
    def credit_targets(self) -> int:
        return self.buffers.targets[CREDIT]

    @property
    def held_envelopes(self) -> int:
        return self.buffers.held_envelopes

    @property
    def unrecorded_targets(self) -> int:
        return 0 if self.late_records is None else self.late_records.targets

    def add_settled(self, tier: Tier, draft: Draft, settled_ms: float) -> None:
        """Count the outcomes of a draft that was settled. settled_ms: how long that took."""
        for code, targets in draft.counts.items():
            self.outcomes[tier, draft.record.channel, code] += targets
        self.retried += draft.retried
        self.unknown += draft.unknown
        self.dead_lettered += len(draft.letters)
        self.stages["settled"].add(settled_ms, len(draft.acks))

    def tier_stats(self) -> dict[str, TierStats]:
        """Return the counts per tier for the heartbeat."""
        return {
            str(tier): TierStats(counts.granted, counts.sent, counts.envelopes, list(counts.wait.counts))
            for tier, counts in self.tiers.items()
        }
