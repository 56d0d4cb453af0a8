"""What the engine counts. Plain numbers, written by the engine's thread alone; others may read them at any time."""

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field

from dispatcher.engine.buffers import EnvelopeRun
from dispatcher.engine.unrecorded import LateRecords
from dispatcher.model.tier import TIERS, Tier
from dispatcher.model.view import WAIT_BUCKETS_MS, TierStats


class Histogram:
    """Durations in ms by WAIT_BUCKETS_MS (upper bounds, inclusive); the last count is of longer ones."""

    __slots__ = ("count", "counts", "sum_ms")

    def __init__(self) -> None:
        self.counts = [0] * (len(WAIT_BUCKETS_MS) + 1)
        self.count = 0
        self.sum_ms = 0.0

    def add(self, ms: float, count: int = 1) -> None:
        self.counts[bisect_left(WAIT_BUCKETS_MS, ms)] += count
        self.count += count
        self.sum_ms += ms * count

    def add_published(self, part: EnvelopeRun, wall_ms: float) -> None:
        """The age of each envelope of `part`; cheap when all fall into one bucket."""
        deliveries = part.deliveries
        first = wall_ms - deliveries[0].envelope.published_ms
        last = wall_ms - deliveries[-1].envelope.published_ms
        if bisect_left(WAIT_BUCKETS_MS, first) == bisect_left(WAIT_BUCKETS_MS, last):
            self.add((first + last) / 2, len(deliveries))
            return
        for delivery in deliveries:
            self.add(wall_ms - delivery.envelope.published_ms)


@dataclass
class TierCounts:
    """Of one tier, since the start: targets granted and sent; envelopes sent, and their waits (published to sent)."""

    granted: int = 0
    sent: int = 0
    envelopes: int = 0
    wait: Histogram = field(default_factory=Histogram)


@dataclass
class EngineStats:
    """Counters (since the start) and gauges of one engine.

    outcomes: targets by (tier, channel, Outcome value). stages: envelopes, by what they had reached: received (since
    published), leased (since received), sent (since leased), settled (since sent). republished, moved, dropped,
    dead_lettered: envelopes. given_back, retried: targets. stored_again: things published again for want of a receipt.
    """

    tiers: dict[Tier, TierCounts] = field(default_factory=lambda: {tier: TierCounts() for tier in TIERS})
    outcomes: defaultdict[tuple[Tier, str, int], int] = field(default_factory=lambda: defaultdict(int))
    stages: dict[str, Histogram] = field(
        default_factory=lambda: {name: Histogram() for name in ("received", "leased", "sent", "settled")}
    )
    received: int = 0
    acked: int = 0
    retried: int = 0
    given_back: int = 0
    republished: int = 0
    moved: int = 0
    dropped: int = 0
    dead_lettered: int = 0
    stored_again: int = 0
    lease_calls: int = 0
    lease_errors: int = 0
    stood_still: int = 0
    """How often the ledger's time showed that our clock had stopped."""
    given_back_refused: int = 0
    """Returns of credit that the ledger could not carry out."""

    lanes: int = 0
    parked_lanes: int = 0
    buffered_targets: int = 0
    credit_targets: int = 0
    held_envelopes: int = 0
    in_flight_batches: int = 0
    in_flight_targets: int = 0
    unsettled_targets: int = 0
    in_channels: dict[str, int] = field(default_factory=dict)
    """Task -> for how long (ms) some of it has been in its channel, waiting for a place or an answer."""
    late_records: LateRecords | None = None
    """Outcomes that Pulsar should have stored by now."""

    def tier_stats(self) -> dict[str, TierStats]:
        """For the heartbeat."""
        return {
            str(tier): TierStats(counts.granted, counts.sent, counts.envelopes, list(counts.wait.counts))
            for tier, counts in self.tiers.items()
        }
