"""Check law 3 where the ledger grants: a tier whose requests are refused waits for a bounded number of targets.

The bound holds regardless of which worker asks, and when. Between two grants of a tier with weight w of W, the others
are granted (less what they give back) at most the sum of

- (W - w) / w times the largest envelope of its last call: until its bucket is above zero again,
- the content of their buckets, and as much again until a lane of the tier that is ahead of its peers may draw,
- what the capacity allows in the longest time in which no worker asked for the tier (calls that are late or lost,
  workers that stall or die),
- one largest envelope each, since an envelope is granted whole.

A tier is judged from the first call in which its targets were refused for lack of credit. Not judged are

- runs without a capacity, where the order of each worker's sends decides (Figures.gap covers those);
- tasks that a cap of their own, or of their channel or app, may hold back;
- spans in which the capacity or the weights of the tiers change.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

WINDOWS = 2
"""How many times the bound includes the content of the capacity's buckets."""
CLOCK_US = 2_000
"""Tolerance for the ledger's clock, which has milliseconds, at both ends of a span."""


@dataclass(slots=True)
class TierCall:
    """The part of one call that concerns a tier."""

    granted: int = 0
    """Targets granted."""
    largest: int = 0
    """The largest envelope among those requested."""
    waits: bool = False
    """Whether envelopes remain that only the tier's credit holds back."""

    def add(self, granted: int, size: int, *, waits: bool) -> None:
        self.granted += granted
        if size > self.largest:
            self.largest = size
        if waits:
            self.waits = True


@dataclass(slots=True)
class _Span:
    """The time since the last grant of a tier, or its first refusal."""

    owed: int
    """The largest envelope of the call with that grant."""
    asked_us: int
    unasked_us: int = 0
    """The longest time between two calls that asked for the tier."""
    others: int = 0
    """Targets granted to the other tiers."""
    largest: Counter[str] = field(default_factory=Counter)
    """The largest envelope of each other tier."""

    def ask(self, now_us: int) -> None:
        self.unasked_us = max(self.unasked_us, now_us - self.asked_us)
        self.asked_us = now_us

    def grant(self, tier: str, call: TierCall) -> None:
        self.others += call.granted
        self.largest[tier] = max(self.largest[tier], call.largest)


class GapWatch:
    """Watches all calls in the order of the ledger."""

    def __init__(self) -> None:
        self.judged = 0
        """How often a span was compared with its bound."""
        self._rate = 0
        self._allowance = 0.0
        self._weights: dict[str, float] = {}
        self._owed: defaultdict[str, int] = defaultdict(int)
        self._spans: dict[str, _Span] = {}

    def set_capacity(self, rate: int, allowance: float) -> None:
        """Set the capacity in targets/s (0: none), and the targets that may be granted at once."""
        self._rate, self._allowance = rate, allowance
        self._spans.clear()

    def set_weights(self, weights: Mapping[str, float]) -> None:
        """Set the weights of the tiers."""
        self._weights = dict(weights)
        self._spans.clear()

    def returned(self, tier: str, targets: int) -> None:
        """Record targets that were granted earlier and given back in time."""
        for other, span in self._spans.items():
            if other != tier:
                span.others -= targets

    def called(self, now_us: int, calls: Mapping[str, TierCall]) -> Iterator[str]:
        """Record one call, by tier. Yield each violation as a text."""
        if not self._rate:
            return
        for tier in [tier for tier in calls if tier in self._spans]:
            self._spans[tier].ask(now_us)
            yield from self._judge(tier)
        for tier, call in calls.items():
            if call.granted:
                self._owed[tier] = call.largest
                self._spans.pop(tier, None)
        self._share(calls)
        for tier, call in calls.items():
            if call.waits and tier not in self._spans:
                self._spans[tier] = _Span(self._owed[tier], now_us)

    def _share(self, calls: Mapping[str, TierCall]) -> None:
        """Add the grants of a call to the spans of the tiers that got nothing."""
        for waiting, span in self._spans.items():
            for tier, call in calls.items():
                if tier != waiting and call.granted:
                    span.grant(tier, call)

    def _judge(self, tier: str) -> Iterator[str]:
        span, weight, total = self._spans[tier], self._weights[tier], sum(self._weights.values())
        law = (total - weight) / weight * span.owed + span.largest.total()
        bound = law + WINDOWS * self._allowance + self._rate * (span.unasked_us + CLOCK_US) / 1e6
        self.judged += 1
        if span.others > bound:
            del self._spans[tier]
            yield (
                f"{tier} was granted nothing while the others were granted {span.others} targets, {bound:.0f} is the "
                f"bound (law 3: {law:.0f}; no worker requested it for up to {span.unasked_us / 1e6:.3f} s)"
            )
