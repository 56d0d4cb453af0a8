"""A thousand generated services break no law."""

import os

import pytest

from lab.simulator.run.many import run_many

SEEDS = int(os.environ.get("FAIRLANE_TEST_SEEDS", "1000"))


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(600)
def test_a_thousand_seeds_violate_nothing() -> None:
    """Services of at most 2,000 envelopes each. FAIRLANE_TEST_SEEDS sets their number."""
    found = run_many("random", range(1, SEEDS + 1), os.cpu_count() or 1, print)
    print(f"{found.seeds} seeds, {found.targets} targets, {found.took_s} s")
    assert found.targets > SEEDS
    assert [f"seed {one.seed}: {one.failures[0]}; run it again: {one.replay}" for one in found.bad] == []
