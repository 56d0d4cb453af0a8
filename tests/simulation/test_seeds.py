"""The scenarios that ship keep their promises, and a thousand generated services break no law."""

import os

import pytest

from lab.simulator.run.many import Seeds, run_many, run_one
from lab.simulator.scenario.library import names

LONG = {"thousand-lanes", "crash-storm"}
SEEDS = int(os.environ.get("FAIRLANE_TEST_SEEDS", "1000"))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in names()])
def test_a_scenario_that_ships_is_met(name: str) -> None:
    result = run_one(name, 1)
    unmet = [f"{one.what}: wanted {one.wanted}, found {one.found}" for one in result.expectations if not one.met]
    assert result.violations == []
    assert unmet == []
    assert result.expectations or result.outcomes["pending"] == 0


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(600)
def test_a_thousand_seeds_violate_nothing() -> None:
    """Services of at most 2,000 envelopes each. FAIRLANE_TEST_SEEDS sets their number."""
    found = run_many(Seeds("random", 1, SEEDS), print)
    print(f"{found.seeds} seeds, {found.targets} targets, {found.took_s} s")
    assert found.targets > SEEDS
    assert [f"seed {one.seed}: {one.failures[0]}; run it again: {one.replay}" for one in found.bad] == []
