"""Law 8: few calls of Redis, and nothing sent while it is gone, with real engines, after whatever has happened."""

import random

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from dispatcher.model.tier import TIERS
from tests.contract.law_engines import LawEngines
from tests.contract.law_service import Judged, check, randoms
from tests.contract.ledger_crowd import assert_owned, assert_tallied, assert_whole
from tests.contract.ledger_worlds import Worlds, own_lane

STEADY_CALLS_S, WAKING_CALLS_S, CALLS_BURST = 10, 50, 10
"""Law 8: of one worker, and with lanes that wake up. And what may come at once after a rest."""
MUCH_TARGETS_S, CALLS_PER_TARGET = 5_000, 0.02
LOOKS_AT_PAUSED = 2
"""Calls, in the 2 s of a measure, for each paused lane: it is parked for 2 s, then asked for as one that woke up."""
AT_ONCE_S = 0.05
CALM_S = 2.0
"""Lanes that woke up are empty by then: a worker asks again when one of them runs dry."""
RECOVERY_S = 4.0
"""The longest wait for another attempt, and for the other workers."""
ALERTS = 8
CAPS = ["total", "total", "channel/log", "app/app", "task/high0"]


class Calls(Judged):
    """One to three workers that hold all lanes. Some tasks have a standing backlog; alerts come one by one."""

    worlds: Worlds

    @initialize(
        capacity=st.sampled_from([500, 2_000, 12_000]),
        workers=st.integers(1, 3),
    )
    def begin(self, capacity: int, workers: int) -> None:
        self.crew = LawEngines(self.worlds().place, size=max(10, capacity // 200))
        self.crew.set_cap("total", capacity)
        for tier in TIERS:
            self.crew.arrive(f"{tier}0", str(tier), standing=True)
        for number in range(ALERTS):
            self.crew.arrive(f"alert{number}", "high")
        for _ in range(workers):
            self.crew.join()
        self.crew.run_for(1.0)

    # ------------------------------------------------------------- what happens
    @rule(rng=randoms, count=st.sampled_from([1, 1, 20]), standing=st.booleans())
    def arrive(self, rng: random.Random, count: int, standing: bool) -> None:
        """A worker with a new lane asks for it at once."""
        crew = self.crew
        if len(crew.pushes) > 40:
            return
        names = [f"t{len(crew.pushes) + number}" for number in range(count)]
        crew.run_for(0.3)
        from_s = crew.now_s
        for name in names:
            crew.arrive(
                name, str(rng.choice(TIERS)), channel=rng.choice(["null", "log"]), standing=standing and count == 1
            )
        crew.run_for(AT_ONCE_S)
        if self._is_calm(from_s):
            asked = {lane for call in crew.lease_calls[-200:] if call.at_s >= from_s for lane in call.lanes}
            assert asked >= {own_lane(name) for name in names}, "new demand is asked for at once"

    def _is_calm(self, now_s: float) -> bool:
        """The ledger has been there for a while."""
        return bool(self.crew.live) and now_s >= self._back_s() + RECOVERY_S

    def _back_s(self) -> float:
        return self.crew.outages[-1].to_s if self.crew.outages else -RECOVERY_S

    @rule(gap_ms=st.sampled_from([1, 3, 10]), count=st.sampled_from([50, 400]))
    def wake(self, gap_ms: int, count: int) -> None:
        """Lanes that were dry have something, one after the other."""
        for number in range(count):
            self.crew.more(self.crew.pushes[f"alert{number % ALERTS}"], 1)
            self.crew.run_for(gap_ms / 1_000)

    @rule(rng=randoms)
    def toggle(self, rng: random.Random) -> None:
        push = self.crew.pushes[rng.choice(sorted(self.crew.pushes))]
        push.standing = not push.standing or sum(one.standing for one in self.crew.pushes.values()) == 1

    @rule()
    def join(self) -> None:
        if len(self.crew.live) < 3:
            self.crew.join()

    @precondition(lambda self: len(self.crew.live) > 1)
    @rule(rng=randoms)
    def die(self, rng: random.Random) -> None:
        rng.choice(self.crew.live).die()

    @rule(name=st.sampled_from(CAPS), rate=st.sampled_from([0, 300, 1_000, 12_000]))
    def set_cap(self, name: str, rate: int) -> None:
        self.crew.set_cap(name, rate or (2_000 if name == "total" else 0))

    @rule(rng=randoms, paused=st.booleans())
    def pause(self, rng: random.Random, paused: bool) -> None:
        """Not all of them."""
        push = self.crew.pushes[rng.choice(sorted(self.crew.pushes))]
        if push.name != "high0":
            self.crew.pause(push, paused)

    @rule(ms=st.sampled_from([100, 700, 2_500]))
    def wait(self, ms: int) -> None:
        self.crew.run_for(ms / 1_000)

    # ------------------------------------------------------------- few calls
    @precondition(lambda self: self.crew.reachable)
    @rule()
    def measure(self) -> None:
        """With a standing backlog and nothing new a worker asks ten times a second."""
        crew, seconds = self.crew, 2.0
        crew.run_for(max(CALM_S, self._back_s() + RECOVERY_S - crew.now_s))
        from_s = crew.now_s
        crew.run_for(seconds)
        calls, sent = crew.calls_within(from_s, crew.now_s), self._targets(from_s, crew.now_s)
        paused = sum(push.paused for push in crew.pushes.values())
        for worker, count in calls.items():
            assert count <= STEADY_CALLS_S * seconds + 1 + LOOKS_AT_PAUSED * paused, (
                f"{worker}: {count} calls in {seconds} s"
            )
        if sent >= MUCH_TARGETS_S * seconds:
            assert calls.total() <= CALLS_PER_TARGET * sent

    def _targets(self, from_s: float, to_s: float) -> int:
        return sum(sent.targets for sent in self.crew.sent_within(from_s, to_s))

    def _judge_calls(self) -> None:
        """In no second more than while lanes wake up, whatever happens."""
        by_worker: dict[str, list[float]] = {}
        for call in self.crew.lease_calls:
            times = by_worker.setdefault(call.worker, [])
            times.append(call.at_s)
            from_s = times[-WAKING_CALLS_S - CALLS_BURST] if len(times) >= WAKING_CALLS_S + CALLS_BURST else -1.0
            if from_s > call.at_s - 1.0:
                sent = sum(one.targets for one in self.crew.sent_within(call.at_s - 1.0, call.at_s + 1e-9))
                count = len([at_s for at_s in times[-300:] if at_s > call.at_s - 1.0])
                allowed = max(WAKING_CALLS_S, CALLS_PER_TARGET * sent if sent > MUCH_TARGETS_S else 0)
                assert count <= allowed + CALLS_BURST, f"{call.worker}: {count} calls in a second for {sent} targets"

    # ------------------------------------------------------------- without the ledger
    @precondition(lambda self: self.crew.reachable)
    @rule(answers_only=st.booleans(), ms=st.sampled_from([500, 4_000, 20_000]))
    def lose(self, answers_only: bool, ms: int) -> None:
        """Workers send what they have leased, nothing else (LawEngines.answer)."""
        if answers_only:
            self.crew.lose_answers()
        else:
            self.crew.lose_ledger()
        self.crew.run_for(ms / 1_000)

    @precondition(lambda self: not self.crew.reachable)
    @rule()
    def find(self) -> None:
        """Sending goes on by itself."""
        crew = self.crew
        crew.find_ledger()
        crew.run_for(RECOVERY_S)
        from_s = crew.now_s
        crew.run_for(1.0)
        if any(self._is_free(push.name) for push in crew.pushes.values() if push.standing):
            assert self._targets(from_s, crew.now_s) >= 0.8 * crew.caps["total"] - 3 * crew.size, "it goes on"

    def _is_free(self, name: str) -> bool:
        """Nothing but the capacity keeps the task back."""
        push = self.crew.pushes[name]
        caps = (f"channel/{push.channel}", "app/app", f"task/{name}")
        return not push.paused and not any(self.crew.caps[cap] for cap in caps)

    # ------------------------------------------------------------- the end
    def _all_at_least_once(self) -> None:
        """Every example measures, wakes lanes up, and ends with an outage in which controls change."""
        self.measure()
        for seed in range(3):
            self.arrive(random.Random(seed), 1, standing=False)
        self.crew.set_cap("total", 12_000)
        self.wake(gap_ms=3, count=300)
        self.lose(answers_only=False, ms=3_500)
        self.crew.pause(self.crew.pushes["medium0"], paused=True)
        self.crew.set_cap("total", 3_000)
        self.crew.run_for(3.0)

    def teardown(self) -> None:
        if not (self.is_sound and hasattr(self, "crew")):
            return
        crew = self.crew
        if crew.reachable:
            self._all_at_least_once()
        if not crew.reachable:
            self.find()
        self._judge_calls()
        assert_tallied(crew)
        for push in crew.pushes.values():
            crew.pause(push, paused=False)
        for name in list(crew.caps):
            crew.set_cap(name, 0)
        crew.finish()
        self._judge_repeats()
        assert_tallied(crew)
        assert_whole(crew)
        assert_owned(crew)

    def _judge_repeats(self) -> None:
        """Only what a worker that died had sent may be sent again."""
        dead = {worker.name for worker in self.crew.workers if not worker.alive}
        for push in self.crew.pushes.values():
            for sequence, workers in push.calls.items():
                excused = bool(dead.intersection(workers))
                assert len(workers) == 1 or excused, f"{push.name} {sequence} is sent by {workers}"


@pytest.mark.timeout(400)
def test_few_calls_and_nothing_sent_without_the_ledger_whatever_happens(worlds: Worlds) -> None:
    check(Calls, worlds, examples=5, steps=8)
