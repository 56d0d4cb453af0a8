"""The ledger accounts for all targets ever granted: granted = used + returned + expired + held."""

import random

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from dispatcher.wire.lease import Status
from dispatcher.wire.outcome import RETRY, CloseTask, Mixed, Outcome, Run
from tests.contract.law_service import check, randoms
from tests.contract.ledger_crowd import assert_tallied
from tests.contract.ledger_worlds import (
    LawWorld,
    Worlds,
    ask,
    ask_retry,
    each_piece,
    fold,
    given_back,
    mixed,
    outcomes,
    own_lane,
    request,
    run,
    want,
)

TASKS = {"h0": "high", "h1": "high", "m0": "medium", "l0": "low"}
Grants = list[tuple[str, str, int, int, int, int]]
"""Claim, task, attempt, first, count, size."""


class Tally(RuleBasedStateMachine):
    worlds: Worlds

    def __init__(self) -> None:
        super().__init__()
        self.world: LawWorld = self.worlds()
        self.number = 0
        self.grants: Grants = []

    @initialize(rate=st.sampled_from(["0", "300", "5000:900"]), cap=st.sampled_from(["0", "200"]))
    def start(self, rate: str, cap: str) -> None:
        for task, tier in TASKS.items():
            self.world.add(task, tier)
        self.world.set_global("capacity", rate)
        self.world.set_global("cap:app:shop", cap)

    @rule(rng=randoms, lease_ms=st.sampled_from([200, 1_000]))
    def lease(self, rng: random.Random, lease_ms: int) -> None:
        self.number += 1
        size = rng.choice([1, 3, 20])
        asks = [
            ask(own_lane(task), want(task, rng.randint(0, 50), rng.choice([1, 10, 60]), size=size)) for task in TASKS
        ]
        asks.append(ask_retry(want(rng.choice([*TASKS]), rng.randint(0, 20), 3, attempt=1, size=1)))
        back = [given_back(t, f, rng.randint(1, n), c, attempt=a, size=s) for c, t, a, f, n, s in self._some(rng)]
        asked = request(self.number, *asks, given_back=back, lease_ms=lease_ms, claim_ms=1_500)
        for _, wanted, first, piece in each_piece(asks, self.world.ledger.lease(asked)):
            if piece.status == Status.GRANTED:
                self.grants.append((asked.claim, wanted.task, wanted.attempt, first, piece.count, wanted.size))

    def _some(self, rng: random.Random) -> Grants:
        return rng.sample(self.grants, min(len(self.grants), rng.choice([0, 0, 1, 2])))

    @rule(rng=randoms, times=st.sampled_from([1, 1, 2]))
    def record(self, rng: random.Random, times: int) -> None:
        for claim, task, attempt, first, count, size in self._some(rng):
            some = rng.randint(1, count)
            whole: Run | Mixed = run(first, some, rng.choice([0, 1]), size=size, attempt=attempt)
            again = mixed(first, [RETRY] * size, attempt=attempt, size=size)
            fold(self.world, *[outcomes(task, rng.choice([whole, again]), claim=claim)] * times)

    @rule(ms=st.sampled_from([10, 100, 1_600]))
    def wait(self, ms: int) -> None:
        self.world.advance(ms)

    @rule()
    def end_claims(self) -> None:
        self.world.end_claims()

    @rule(task=st.sampled_from([*TASKS]))
    def close(self, task: str) -> None:
        self.world.seal(task, 1_000)
        fold(self.world, CloseTask(1, task, int(Outcome.CANCELLED), 5))

    @invariant()
    def tallied(self) -> None:
        assert_tallied(self.world)


def test_what_was_granted_is_used_returned_expired_or_held(worlds: Worlds) -> None:
    check(Tally, worlds, examples=40, steps=30)
