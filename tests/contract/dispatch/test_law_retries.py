"""Retry lanes: a tenth of their tier while there is fresh work, all of it while there is none, after whatever has
happened; stateful tests over memory, Redis and Valkey."""

import random

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from dispatcher.model.tier import TIERS
from lab.laws import jain
from tests.contract.dispatch.test_law_shares import LONGEST_PERIOD_MS, MEASURE_MS, PERIODS, SETTLE_MS, Backlogged, tiers
from tests.contract.law_service import LawService, Work, check, randoms
from tests.contract.ledger_worlds import TOPICS, Worlds, in_process_worlds

WINDOW_S = 0.25
STEPS = [lane.delay_s for lane in TOPICS.retry_lanes() if lane.tier == TIERS[0]]


class Retried(Backlogged):
    """Tasks with a standing backlog behind a capacity, some of them in retry lanes."""

    @initialize(
        rng=randoms,
        rate=st.sampled_from([500, 2_000, 20_000]),
        size=st.sampled_from([1, 5, 20]),
        periods=st.tuples(PERIODS, PERIODS),
    )
    def begin(self, rng: random.Random, rate: int, size: int, periods: tuple[int, int]) -> None:
        super().begin(rng, "total", rate, size, periods)
        for tier in TIERS:
            for number in range(rng.randint(0, 2)):
                self.service.retrying(f"again-{tier}{number}", tier, size, step_s=rng.choice(STEPS))
        self.divide(rng)

    @rule(rng=randoms, tier=tiers)
    def be_retried(self, rng: random.Random, tier: str) -> None:
        if len(self.service.works) < 16:
            self.service.retrying(f"again{len(self.service.works)}", tier, self.size, step_s=rng.choice(STEPS))
            self.divide(rng)

    @rule()
    def measure(self) -> None:
        service, seconds = self.service, MEASURE_MS / 1_000
        service.run(SETTLE_MS)
        granted = service.run(MEASURE_MS)
        assert granted.total() >= 0.98 * self.rate * (seconds - 0.13) - 3 * self.size, "law 2"
        for tier, part in self._parts().items():
            fresh, retried = self._works_of(tier)
            of_fresh, of_retried = (sum(granted[work.name] for work in works) for works in (fresh, retried))
            slack = 0.02 + 3 * self.size / (seconds * self.rate)
            assert (of_fresh + of_retried) / granted.total() == pytest.approx(part, abs=slack), "law 1"
            if fresh and retried:
                behind = (of_fresh + of_retried) / 10 - of_retried
                assert -self._lead(tier) <= behind <= self._lead(tier) + self._lag(tier), f"retries of {tier}"
            if min((granted[work.name] for work in fresh), default=0) >= 20 * self.size:
                assert jain([granted[work.name] for work in fresh]) >= 0.97, f"law 4: {tier}"

    def judge(self) -> None:
        self.measure()

    @rule(tier=tiers)
    def come_late(self, tier: str) -> None:
        """Law 4: a task that comes when retries have been there has its part of the fresh work from the beginning."""
        if len(self.service.works) >= 16:
            return
        service = self.service
        service.run(1_000)
        fresh, retried = self._works_of(tier)
        late = service.add(f"late{len(service.works)}", tier, self.size)
        for tasks in service.holds.values():
            tasks.append(late.name)
        granted = service.run(3_000)[late.name]
        share = 3 * self.rate * self._parts()[tier]
        fair = share * (0.9 if retried else 1) / (len(fresh) + 1)
        slack = 0.1 * fair + self.rate / 4 * self._parts()[tier] + 2 * self.size
        assert granted >= fair - slack, "it waits for nobody"

    def _works_of(self, tier: str) -> tuple[list[Work], list[Work]]:
        """Those with a backlog in lanes of their own, and in retry lanes."""
        works = [self.service.works[name] for name in self._busy() if self.service.works[name].tier == tier]
        return [work for work in works if not work.shared], [work for work in works if work.shared]

    def _lead(self, tier: str) -> float:
        """How far retries may be ahead: a window of theirs when they begin and when they end, as any lane,
        what they get between two calls of a worker, and an envelope of each lane."""
        retry_lanes = len({work.lane for work in self._works_of(tier)[1]})
        seconds = WINDOW_S + LONGEST_PERIOD_MS / 1_000
        return 0.1 * self.rate * seconds * self._parts()[tier] + (retry_lanes + 1) * self.size

    def _lag(self, tier: str) -> float:
        """How much further retries may be behind: by the window that lanes of fresh work may once be ahead, if only
        workers that ask rarely hold the retry lanes."""
        return 0.9 * self.rate * WINDOW_S * self._parts()[tier]


@pytest.mark.timeout(400)
def test_retries_have_a_tenth_of_their_tier_after_whatever_has_happened(worlds: Worlds) -> None:
    check(Retried, worlds, examples=8, steps=10)


@pytest.mark.parametrize(("rate", "size"), [(500, 1), (20_000, 20)])
def test_retries_have_their_tenth_though_a_slow_worker_alone_holds_them(rate: int, size: int) -> None:
    service = LawService(in_process_worlds()(), ask_targets=rate // 4 + size)
    service.set_cap("total", rate)
    fresh = [service.add(name, tier, size).name for name, tier in [("a", "high"), ("b", "high"), ("m", "medium")]]
    service.retrying("again", "high", size, step_s=STEPS[0])
    service.join("slow", LONGEST_PERIOD_MS, ["again"])
    for number in range(3):
        service.join(f"quick{number}", 20, fresh)
    service.run(5_000)
    granted = service.run(6_000)
    assert granted["again"] / (granted["again"] + granted["a"] + granted["b"]) == pytest.approx(0.1, abs=0.01)
