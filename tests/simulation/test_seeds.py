"""What ships holds what it says, and a thousand made-up services violate nothing."""

import os

import pytest

from fairlane.simulate.library import names
from fairlane.simulate.many import AT_ONCE, run_batch, run_one

LONG = {"thousand-lanes", "crash-storm"}
SEEDS = int(os.environ.get("FAIRLANE_TEST_SEEDS", "1000"))
PARTS = 10


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in names()])
def test_a_scenario_that_ships_is_met(name: str) -> None:
    result = run_one(name, 1)
    unmet = [f"{one.what}: wanted {one.wanted}, found {one.found}" for one in result.expectations if not one.met]
    assert result.violations == []
    assert unmet == []
    assert result.expectations or result.outcomes["pending"] == 0


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(PARTS))
def test_a_thousand_seeds_violate_nothing(part: int) -> None:
    """Of at most 2,000 envelopes each; a tenth of them in each test. FAIRLANE_TEST_SEEDS changes how many."""
    first, last = (1 + one * SEEDS // PARTS for one in (part, part + 1))
    for start in range(first, last, AT_ONCE):
        for one in run_batch("random", start, last):
            assert one.good, f"seed {one.seed}: {one.failures[0]}; run it again: {one.replay}"
