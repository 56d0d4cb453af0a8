"""Laws 1, 2, 4 and 5 after whatever has happened to the service: stateful tests over memory, Redis and Valkey."""

import random

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from dispatcher.model.tier import MILLI, TIERS
from lab.laws import jain
from tests.contract.law_service import POOLS, Judged, LawService, check, randoms
from tests.contract.ledger_crowd import assert_owned, assert_tallied, assert_whole
from tests.contract.ledger_worlds import Worlds

tiers = st.sampled_from([str(tier) for tier in TIERS])
SETTLE_MS = 2_000
"""Law 5: a change shows within so long."""
MEASURE_MS = 4_000
LONGEST_PERIOD_MS = 110
PERIODS = st.integers(20, LONGEST_PERIOD_MS)


class Backlogged(Judged):
    """Tasks with a standing backlog behind one cap of any kind; each lane is held by some of the workers."""

    worlds: Worlds

    def __init__(self) -> None:
        super().__init__()
        self.service = LawService(self.worlds())
        self.weights = {"high": 6_000, "medium": 3_000, "low": 1_000}
        self.workers = 0

    @initialize(
        rng=randoms,
        cap=st.sampled_from(POOLS),
        rate=st.sampled_from([500, 2_000, 20_000]),
        size=st.sampled_from([1, 5, 20]),
        periods=st.tuples(PERIODS, PERIODS),
    )
    def begin(self, rng: random.Random, cap: str, rate: int, size: int, periods: tuple[int, int]) -> None:
        self.cap, self.rate, self.size = cap, rate, size
        self.service.ask_targets = rate // 4 + size
        self.service.set_cap(cap, rate)
        for tier in TIERS:
            for number in range(rng.randint(1, 3)):
                self.service.add(f"{tier}{number}", tier, size)
        for period_ms in periods:
            self.join(rng, period_ms)

    # ------------------------------------------------------------- what happens
    @rule(rng=randoms, period_ms=PERIODS)
    def join(self, rng: random.Random, period_ms: int) -> None:
        if len(self.service.holds) < 4:
            self.workers += 1
            self.service.join(f"w{self.workers}", period_ms, [])
            self.divide(rng)

    @precondition(lambda self: len(self.service.holds) > 1)
    @rule(rng=randoms)
    def die(self, rng: random.Random) -> None:
        self.service.die(rng.choice(sorted(self.service.holds)))
        self.divide(rng)

    @rule(rng=randoms)
    def divide(self, rng: random.Random) -> None:
        """Each lane is held by one worker, and by others by chance."""
        holders = {name: rng.choice(sorted(self.service.holds)) for name in self.service.works}
        for worker, tasks in self.service.holds.items():
            tasks[:] = [name for name, holder in holders.items() if holder == worker or rng.random() < 0.3]

    @rule(rng=randoms, tier=tiers)
    def arrive(self, rng: random.Random, tier: str) -> None:
        if len(self.service.works) < 12:
            self.service.add(f"late{len(self.service.works)}", tier, self.size)
            self.divide(rng)

    @rule(rng=randoms)
    def toggle(self, rng: random.Random) -> None:
        """A lane runs dry, or has a backlog again. One stays."""
        work = self.service.works[rng.choice(sorted(self.service.works))]
        work.backlog = not work.backlog or len(self._busy()) == 1

    @rule(ms=st.sampled_from([30, 400, 1_500]))
    def wait(self, ms: int) -> None:
        self.service.run(ms)

    def _busy(self) -> list[str]:
        return [name for name, work in self.service.works.items() if work.backlog]

    def _parts(self) -> dict[str, float]:
        """The tiers' shares, by the weights of those with a backlog."""
        busy = {self.service.works[name].tier for name in self._busy()}
        return {tier: self.weights[tier] / sum(self.weights[one] for one in busy) for tier in busy}

    # ------------------------------------------------------------- what holds at any time
    @invariant()
    def tallied(self) -> None:
        assert_tallied(self.service.world)

    def judge(self) -> None:
        """The law in question, once more when everything has happened: every example ends with it."""

    def teardown(self) -> None:
        if self.is_sound and self.service.holds:
            self.judge()
        self.service.assert_caps_kept()
        assert_whole(self.service.world)
        assert_owned(self.service.world)


class Steered(Backlogged):
    """With everything that can be changed live. Laws 1, 2, 4, 5 are asserted after any history."""

    @rule(rng=randoms, weight=st.sampled_from([500, 1_000, 3_000]))
    def weigh(self, rng: random.Random, weight: int) -> None:
        self.service.set_task(rng.choice(sorted(self.service.works)), "weight", str(weight))

    @rule(rng=randoms, tier=tiers)
    def change_tier(self, rng: random.Random, tier: str) -> None:
        self.service.set_task(rng.choice(sorted(self.service.works)), "tier", tier)

    @rule(weights=st.sampled_from([(6_000, 3_000, 1_000), (1_000, 1_000, 1_000), (2_000, 5_000, 3_000)]))
    def weigh_tiers(self, weights: tuple[int, int, int]) -> None:
        self.weights = dict(zip(map(str, TIERS), weights, strict=True))
        self.service.world.set_global("tiers", ":".join(map(str, weights)))

    @rule(rate=st.sampled_from([500, 2_000, 20_000]))
    def change_rate(self, rate: int) -> None:
        self.rate = rate
        self.service.ask_targets = rate // 4 + self.size
        self.service.set_cap(self.cap, rate)

    @rule()
    def measure(self) -> None:
        service, seconds = self.service, MEASURE_MS / 1_000
        service.run(SETTLE_MS)
        from_ms = service.now_ms
        service.run(MEASURE_MS)
        by_tier = service.sums(from_ms, service.now_ms, lambda dose: dose.tier)
        self._used(from_ms)
        slack = 0.02 + 3 * self.size / (seconds * self.rate)
        found = {tier: targets / by_tier.total() for tier, targets in by_tier.items()}
        assert found == pytest.approx(self._parts(), abs=slack), "laws 1 and 5: tiers share by weight"
        self._served(from_ms)
        self._shared_in_between(from_ms)
        by_task = service.sums(from_ms, service.now_ms)
        for tier in by_tier:
            tasks = [service.works[name] for name in self._busy() if service.works[name].tier == tier]
            if min(by_task[work.name] for work in tasks) >= 20 * self.size:
                assert jain([by_task[work.name] * MILLI // work.weight for work in tasks]) >= 0.97, f"law 4: {tier}"
            else:
                assert by_tier[tier] < 60 * len(tasks) * self.size * self._spread(tier), f"law 4: {tier}"

    def judge(self) -> None:
        self.measure()

    def _used(self, from_ms: int) -> None:
        """From grant to grant: what has come since the last one is nobody's yet."""
        begins_ms = max(dose.at_ms for dose in self.service.doses if dose.at_ms < from_ms)
        ends_ms = self.service.doses[-1].at_ms
        granted = self.service.sums(begins_ms + 1, ends_ms + 1, lambda dose: dose.tier).total()
        worth = (ends_ms - begins_ms) / 1_000 * self.rate
        assert ends_ms - begins_ms >= MEASURE_MS - LONGEST_PERIOD_MS * 1.2
        assert granted >= 0.98 * worth - 3 * self.size, "law 2: what there is, is used"

    def _shared_in_between(self, from_ms: int) -> None:
        """In every 2 s of it tiers share as well, but for what a late call puts off and an envelope of each tier."""
        window_ms, late_s = 2_000, LONGEST_PERIOD_MS * 1.2 / 1_000
        for since_ms in range(from_ms, self.service.now_ms - window_ms + 1, 250):
            granted = self.service.sums(since_ms, since_ms + window_ms, lambda dose: dose.tier)
            for tier, part in self._parts().items():
                slack = 0.02 * granted.total() + part * self.rate * late_s + 3 * self.size
                assert abs(granted[tier] - part * granted.total()) <= slack, f"law 1: {tier} from {since_ms} on"

    def _spread(self, tier: str) -> float:
        """How far the weights of a tier's lanes are apart."""
        weights = [work.weight for work in self.service.works.values() if work.tier == tier and work.backlog]
        return max(weights) / min(weights)

    def _served(self, from_ms: int) -> None:
        """No tier idle while it has demand and there is capacity: in every second of the stretch a tier is granted its
        share, less what its bucket and a late call may put off."""
        parts, window_ms = self._parts(), 1_000
        late = (LONGEST_PERIOD_MS * 1.2 + 250) / 1_000
        for since_ms in range(from_ms, self.service.now_ms - window_ms + 1, 250):
            granted = self.service.sums(since_ms, since_ms + window_ms, lambda dose: dose.tier)
            for tier, part in parts.items():
                least = part * self.rate * (window_ms / 1_000 - late) - 2 * self.size
                assert granted[tier] >= least, f"{tier} from {since_ms} on"


@pytest.mark.timeout(400)
def test_shares_and_use_are_right_two_seconds_after_whatever_has_happened(worlds: Worlds) -> None:
    """Laws 1, 2, 4 and 5."""
    check(Steered, worlds, examples=8, steps=10)


class Late(Backlogged):
    """Law 4 for one that comes when the others have been there: it neither waits for them nor owes for the past."""

    @rule(rng=randoms, tier=tiers, again=st.booleans())
    def come_late(self, rng: random.Random, tier: str, again: bool) -> None:
        service = self.service
        service.run(1_000)
        idle = [name for name, work in service.works.items() if not work.backlog]
        if again and idle:
            late = service.works[rng.choice(idle)]
            late.backlog = True
        elif len(service.works) < 12:
            late = service.add(f"late{len(service.works)}", tier, self.size)
            self.divide(rng)
        else:
            return
        peers = [name for name in self._busy() if service.works[name].tier == late.tier and name != late.name]
        granted = service.run(3_000)
        fair = 3 * self.rate * self._parts()[late.tier] / (len(peers) + 1)
        # Each lane may be a window ahead or behind when it begins and when it ends, and one envelope.
        slack = 0.1 * fair + self.rate / 4 * self._parts()[late.tier] + 2 * self.size
        for name in [late.name, *peers]:
            assert granted[name] == pytest.approx(fair, abs=slack), f"{name} beside {late.name}, which is late"

    def judge(self) -> None:
        self.come_late(random.Random(1), "medium", again=True)


@pytest.mark.timeout(400)
def test_who_comes_late_neither_waits_nor_owes_after_whatever_has_happened(worlds: Worlds) -> None:
    check(Late, worlds, examples=8, steps=8)
