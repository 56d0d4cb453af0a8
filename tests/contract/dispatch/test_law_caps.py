"""Laws 6 and 7 and the tally, while workers start, die and give back, and tasks are paused, capped and moved."""

import random

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dispatcher.model.tier import TIERS
from tests.contract.law_service import LawService, check, randoms
from tests.contract.ledger_crowd import assert_owned, assert_tallied, assert_whole
from tests.contract.ledger_worlds import Worlds

CAPS = [
    "total",
    *["channel/null", "channel/log"],
    *["app/shop", "app/club"],
    *["app_channel/shop/null", "app_channel/club/log"],
]
LEASE_MS = 600
MAX_WORKERS = 50
MAX_TASKS = 14
rates = st.sampled_from([20, 300, 3_000])
bursts = st.sampled_from([0, 0, 1, 60, 2_000])


class Capped(RuleBasedStateMachine):
    """Caps of every kind, 1 to 50 workers, tasks in lanes of every kind. What is granted in any second is held against
    every cap at the end; that nothing that is stopped is granted anything, at every grant (LawService)."""

    worlds: Worlds

    @initialize(rng=randoms, name=st.sampled_from(CAPS), rate=rates, burst=bursts, workers=st.integers(1, MAX_WORKERS))
    def begin(self, rng: random.Random, name: str, rate: int, burst: int, workers: int) -> None:
        """All workers start at once, with the first cap already set."""
        self.service = LawService(self.worlds(), lease_ms=LEASE_MS)
        self.started = 0
        self.service.set_cap(name, rate, burst)
        for _ in range(4):
            self.arrive(rng)
        self.start(rng, workers)
        self.service.run(300)

    # ------------------------------------------------------------- workers
    @rule(rng=randoms, count=st.integers(1, MAX_WORKERS))
    def start(self, rng: random.Random, count: int) -> None:
        """Start this number of workers at once."""
        for _ in range(min(count, MAX_WORKERS - len(self.service.holds))):
            self.started += 1
            tasks = sorted(self.service.works)
            self.service.join(f"w{self.started}", rng.randint(60, 400), rng.sample(tasks, min(len(tasks), 4)))

    @rule(rng=randoms, part=st.sampled_from([0.1, 0.5, 1.0]))
    def kill(self, rng: random.Random, part: float) -> None:
        """Grants of workers that die count as spent."""
        workers = sorted(self.service.holds)
        for worker in rng.sample(workers, int(len(workers) * part)):
            self.service.die(worker)

    @rule(rng=randoms, most=st.integers(1, 10))
    def give_back(self, rng: random.Random, most: int) -> None:
        """Some of it in time, some too late."""
        for held in rng.sample(self.service.held, min(most, len(self.service.held))):
            self.service.give_back(held, rng.randint(1, held.count))

    # ------------------------------------------------------------- tasks
    @rule(rng=randoms)
    def arrive(self, rng: random.Random) -> None:
        if len(self.service.works) >= MAX_TASKS:
            return
        name, shared = f"t{len(self.service.works)}", rng.random() < 0.3
        now_ms = self.service.world.clock.wall_ms()
        self.service.add(
            name,
            "low" if shared else str(rng.choice(TIERS)),
            rng.choice([1, 7, 50]),
            shared=shared,
            app=rng.choice(["shop", "shop", "club"]),
            channel=rng.choice(["null", "null", "log"]),
            cap=0 if shared else rng.choice([0, 0, 10, 400]),
            cap_burst=rng.choice([0, 2, 100]),
            start_ms=rng.choice([0, 0, 0, now_ms + 700]),
            expires_ms=rng.choice([0, 0, 0, now_ms + 1_500]),
        )
        for tasks in self.service.holds.values():
            if rng.random() < 0.5:
                tasks.append(name)

    @rule(rng=randoms, most=st.integers(1, 4))
    def retry(self, rng: random.Random, most: int) -> None:
        """First envelopes of what is held go on in the retry lanes."""
        held = [one for one in self.service.held if one.want.attempt == 0]
        for one in rng.sample(held, min(most, len(held))):
            self.service.retry(one)

    @rule(rng=randoms, paused=st.booleans())
    def pause(self, rng: random.Random, paused: bool) -> None:
        self.service.set_task(rng.choice(sorted(self.service.works)), "paused", str(int(paused)))

    @rule(rng=randoms)
    def cancel(self, rng: random.Random) -> None:
        end = rng.choice([("cancelled", "1"), ("stopped", "1")])
        self.service.set_task(rng.choice(sorted(self.service.works)), *end)

    @rule(channel=st.sampled_from(["null", "log"]), stopped=st.booleans())
    def stop_channel(self, channel: str, stopped: bool) -> None:
        self.service.stop_channel(channel, stopped)

    # ------------------------------------------------------------- caps
    @rule(name=st.sampled_from(CAPS), rate=st.sampled_from([0, 20, 300, 3_000]), burst=bursts)
    def set_cap(self, name: str, rate: int, burst: int) -> None:
        self.service.set_cap(name, rate, burst)

    @rule(rng=randoms, rate=st.sampled_from([0, 20, 300]), burst=bursts)
    def cap_task(self, rng: random.Random, rate: int, burst: int) -> None:
        self.service.set_task(rng.choice(sorted(self.service.works)), "cap", f"{rate}:{burst}")

    # ------------------------------------------------------------- time
    @precondition(lambda self: self.service.holds)
    @rule(ms=st.sampled_from([100, 100, 700, 1_300]))
    def wait(self, ms: int) -> None:
        self.service.run(ms)

    @invariant()
    def tallied(self) -> None:
        if hasattr(self, "service"):
            assert_tallied(self.service.world)

    def teardown(self) -> None:
        if hasattr(self, "service"):
            self.service.run(200)
            self.service.assert_caps_kept()
            assert_whole(self.service.world)
            assert_owned(self.service.world)


@pytest.mark.timeout(400)
def test_no_cap_is_exceeded_and_nothing_stopped_is_granted_whatever_happens(worlds: Worlds) -> None:
    check(Capped, worlds, examples=15, steps=25)
