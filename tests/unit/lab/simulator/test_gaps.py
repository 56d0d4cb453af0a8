"""Law 3 at the ledger: what is bounded, what is not judged, and that a tier that starves is seen."""

from collections.abc import Callable

import pytest

from dispatcher.wire.control import GlobalChange
from dispatcher.wire.lease import LeaseAnswer, LeaseRequest
from lab.simulator.findings.figures import result_of
from lab.simulator.findings.gaps import GapWatch, TierCall
from lab.simulator.run.many import scenario_for
from lab.simulator.run.run import SimulatedRun
from lab.simulator.scenario.library import check
from lab.simulator.scenario.scenario import Scenario
from lab.simulator.world import World

WEIGHTS = {"high": 6.0, "medium": 3.0, "low": 1.0}
RATE, BURST = 1_000, 100
MS = 1_000


class Watch:
    """Calls come every 10 ms. Low owes for an envelope of 10 from its last grant, and is refused from then on."""

    def __init__(self) -> None:
        self.gaps = GapWatch()
        self.gaps.set_weights(WEIGHTS)
        self.gaps.set_capacity(RATE, BURST)
        self.now_us = 0
        self.found: list[str] = []
        self.call(low=TierCall(granted=10, largest=10, waits=True))

    def call(self, **tiers: TierCall) -> None:
        self.found += self.gaps.called(self.now_us, tiers)
        self.now_us += 10 * MS

    def granted(self, targets: int, *, low_waits: bool = True) -> None:
        """To high, in envelopes of 5, while low is refused."""
        refused = {"low": TierCall(largest=10, waits=True)} if low_waits else {}
        self.call(high=TierCall(granted=targets, largest=5), **refused)


BOUND = 9 * 10 + 5 + 2 * BURST + (10 + 2) * RATE // 1_000
"""Law 3, two bursts, and the 10 ms between two calls with 2 of the clock."""


def test_others_may_be_granted_the_bound_and_no_more() -> None:
    watch = Watch()
    watch.granted(BOUND)
    watch.granted(0)
    assert watch.found == []
    watch.granted(1)
    watch.granted(0)
    assert len(watch.found) == 1
    assert "low was granted nothing" in watch.found[0]


def test_a_grant_begins_a_new_span() -> None:
    watch = Watch()
    for _ in range(3):
        watch.granted(BOUND)
        watch.call(low=TierCall(granted=10, largest=10, waits=True))
    assert watch.found == []
    assert watch.gaps.judged == 6


def test_what_is_given_back_was_not_granted() -> None:
    watch = Watch()
    watch.granted(BOUND + 50)
    watch.gaps.returned("high", 50)
    watch.gaps.returned("low", 50)
    watch.granted(0)
    assert watch.found == []


def test_time_in_which_nobody_asks_for_the_tier_is_the_workers() -> None:
    watch = Watch()
    for _ in range(100):
        watch.granted(10, low_waits=False)
    watch.granted(0)
    assert watch.found == []


@pytest.mark.parametrize(
    "change",
    [
        lambda gaps: gaps.set_weights({**WEIGHTS, "low": 2.0}),
        lambda gaps: gaps.set_capacity(2 * RATE, BURST),
        lambda gaps: gaps.set_capacity(0, 1),
    ],
    ids=["weights", "capacity", "unlimited"],
)
def test_a_span_in_which_the_sharing_changes_is_not_judged(change: Callable[[GapWatch], None]) -> None:
    watch = Watch()
    watch.granted(10 * BOUND)
    change(watch.gaps)
    watch.granted(0)
    assert watch.found == []
    assert watch.gaps.judged == 1


class Starving:
    """Gives low next to nothing."""

    def __init__(self, world: World) -> None:
        self.world = world

    def lease(self, request: LeaseRequest) -> LeaseAnswer:
        self.world.write(GlobalChange(1, "tiers", "6000:3000:1", 0))
        return self.world.ledger.lease(request)


def backlogged(**of_low: object) -> Scenario:
    tasks = [{"name": tier, "tier": tier, "targets": 20_000, "chunk": 10} for tier in WEIGHTS]
    tasks[2] |= of_low
    return check({"name": "mine", "duration_s": 8, "capacity": 1_000, "tasks": tasks, "workers": [{"count": 2}]})


def test_a_ledger_that_starves_a_tier_is_caught() -> None:
    assert result_of(SimulatedRun(backlogged(), 3).go()).good
    assert {one.rule for one in result_of(SimulatedRun(backlogged(), 3, Starving).go()).violations} == {"gap"}


def test_what_its_own_cap_holds_back_is_not_judged() -> None:
    assert result_of(SimulatedRun(backlogged(cap=5), 3).go()).good


def test_in_made_up_services_there_is_something_to_judge() -> None:
    assert (
        sum(SimulatedRun(scenario_for("random", seed), seed).go().service.journal.gaps.judged for seed in range(1, 6))
        > 60
    )
