"""Law 3: between two sends of a tier with a backlog the others send a bounded amount, whatever has happened before."""

import random

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from dispatcher.model.tier import TIERS
from tests.contract.law_service import POOLS, Judged, LawService, check, randoms
from tests.contract.ledger_worlds import Worlds

NAMES = [str(tier) for tier in TIERS]
tier_weights = st.sampled_from([(6_000, 3_000, 1_000), (1_000, 1_000, 1_000), (1_000, 9_000, 20_000)])


class Gaps(Judged):
    """Workers that hold all lanes and ask every few milliseconds; each tier has envelopes of its own size."""

    worlds: Worlds

    @initialize(
        cap=st.sampled_from(POOLS),
        rate=st.sampled_from([300, 2_000]),
        sizes=st.tuples(*[st.sampled_from([1, 10, 100])] * 3),
        weights=tier_weights,
        lanes=st.integers(1, 3),
        workers=st.integers(1, 3),
        period_ms=st.integers(3, 12),
    )
    def begin(  # type: ignore[no-untyped-def]
        self, cap: str, rate: int, sizes, weights, lanes: int, workers: int, period_ms: int
    ) -> None:
        self.service = LawService(self.worlds(), ask_targets=rate // 4 + 100)
        self.rate, self.period_ms, self.lanes = rate, period_ms, lanes
        self.sizes = dict(zip(NAMES, sizes, strict=True))
        self.weigh_tiers(weights)
        self.service.set_cap(cap, rate)
        for tier in NAMES:
            for number in range(lanes):
                self.service.add(f"{tier}{number}", tier, self.sizes[tier])
        for number in range(workers):
            self.service.join(f"w{number}", period_ms, self.service.works)

    @rule(weights=tier_weights)
    def weigh_tiers(self, weights: tuple[int, int, int]) -> None:
        self.weights = dict(zip(NAMES, weights, strict=True))
        self.service.world.set_global("tiers", ":".join(map(str, weights)))

    @precondition(lambda self: self.lanes > 1)
    @rule(rng=randoms)
    def toggle(self, rng: random.Random) -> None:
        """A lane runs dry, or has a backlog again; the first of each tier always has."""
        work = self.service.works[f"{rng.choice(NAMES)}{rng.randrange(1, self.lanes)}"]
        work.backlog = not work.backlog

    @rule(tier=st.sampled_from(NAMES), ms=st.sampled_from([100, 1_000]))
    def idle(self, tier: str, ms: int) -> None:
        """A tier has nothing for a while."""
        works = [work for work in self.service.works.values() if work.tier == tier and work.backlog]
        for work in works:
            work.backlog = False
        self.service.run(ms)
        for work in works:
            work.backlog = True

    @rule(ms=st.sampled_from([500, 1_500]))
    def measure(self, ms: int) -> None:
        """At the time of a change the buckets hold one window at most."""
        self.service.run(600)
        from_ms = self.service.now_ms
        self.service.run(ms)
        for tier in NAMES:
            gap, bound = self._longest_gap(tier, from_ms), self._bound(tier)
            assert gap <= bound, f"{tier}: others were granted {gap} between two grants, {bound} is the bound"

    def teardown(self) -> None:
        """Every example ends with it."""
        if self.is_sound and hasattr(self, "service"):
            self.measure(500)

    def _longest_gap(self, tier: str, from_ms: int) -> int:
        longest = between = 0
        for dose in self.service.doses:
            if dose.at_ms < from_ms:
                continue
            if dose.tier == tier:
                longest, between = max(longest, between), 0
            else:
                between += dose.targets
        return max(longest, between)

    def _bound(self, tier: str) -> float:
        """(W - w) / w times the targets of the tier's envelope, one largest envelope of each other tier, and what the
        others may be granted in the longest time between two calls, with the quanta that one call grants in turn."""
        whole, weight = sum(self.weights.values()), self.weights[tier]
        others = sum(self.sizes[other] for other in NAMES if other != tier)
        between_calls = self.rate * (self.period_ms * 1.2 + 1) / 1_000
        return float((whole - weight) / weight * self.sizes[tier] + others + between_calls)


@pytest.mark.timeout(400)
def test_the_gap_between_two_grants_of_a_tier_is_bounded(worlds: Worlds) -> None:
    check(Gaps, worlds, examples=8, steps=6)
