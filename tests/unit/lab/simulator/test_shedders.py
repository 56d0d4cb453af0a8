"""The shedders of Pulsar 4.0: what they move, and the loads at which they are known to be stuck."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.model.errors import InvalidInput
from lab.simulator.estate.shedder_cases import CASES, Usage, cluster_of, compare_shedders
from lab.simulator.estate.shedders import GRACE_MINUTES, SHEDDERS, WEIGHTS, Loads, Play, ShedderSettings, play

TWO_HOURS = 120
STUCK = [CASES["one-busy"], CASES["one-empty"], CASES["one-low"]]


def cpus(*usages: float, **settings: Any) -> Loads:
    """Return brokers of which only the CPU is used."""
    return cluster_of([(usage,) for usage in usages], settings=ShedderSettings(**settings))


@pytest.mark.parametrize("usages", STUCK, ids=str)
def test_threshold_moves_nothing_in_the_stuck_cases_of_pip_220(usages: Sequence[Usage]) -> None:
    assert play("threshold", cluster_of(usages), TWO_HOURS).moves == 0


@pytest.mark.parametrize(("usages", "moves"), list(zip(STUCK, [False, True, True], strict=True)), ids=str)
def test_avg_moves_bundles_to_the_broker_that_threshold_leaves_empty(usages: Sequence[Usage], moves: bool) -> None:
    result = play("avg", cluster_of(usages), TWO_HOURS)
    assert bool(result.moves) == moves  # the first case is below the 15 points at which Avg begins
    assert (result.uneven_after < result.uneven_before) == moves


def test_avg_waits_for_two_severe_hits_or_eight_others() -> None:
    assert play("avg", cpus(60, 10), 8).minutes_of_moves[0] == 1
    assert play("avg", cpus(40, 15), 8).minutes_of_moves == (7,)


def test_avg_moves_a_fifth_of_the_gap() -> None:
    result = play("avg", cpus(60, 10), 2)
    assert result.usages == pytest.approx({"broker-00": 51.0, "broker-01": 19.0})  # whole bundles of 3 points


def test_threshold_leaves_a_broker_ten_points_above_the_mean_and_sheds_from_one_further_above() -> None:
    assert play("threshold", cpus(59, 40), TWO_HOURS).moves == 0
    result = play("threshold", cpus(80, 20), TWO_HOURS)
    assert result.moves > 0
    assert result.uneven_after < result.uneven_before


def test_threshold_sheds_at_the_points_that_are_set() -> None:
    assert play("threshold", cpus(59, 40, threshold=5), TWO_HOURS).moves > 0
    assert play("threshold", cpus(80, 20, threshold=40), TWO_HOURS).moves == 0


def test_threshold_goes_on_shedding_for_as_long_as_the_past_hides_that_brokers_are_level() -> None:
    moves = [play("threshold", cpus(95, 90, 40, 40, history=history), 20).moves for history in (0.0, 0.9)]
    assert moves[1] > 2 * moves[0] > 0


def overload(loads: Loads, minutes: int = TWO_HOURS) -> Play:
    return play("overload", loads, minutes)


def test_overload_sheds_only_from_brokers_above_its_threshold() -> None:
    assert overload(cpus(84, 0)).moves == 0
    result = overload(cpus(90, 0))
    assert result.usages["broker-00"] < 85
    assert overload(cpus(84, 0, overloaded=80)).moves > 0


def test_overload_sheds_what_is_above_the_threshold_and_five_points_more() -> None:
    """90 is 5 above 85: a tenth of the throughput, which is two of twenty bundles of 4.5 points."""
    result = overload(cpus(90, 0), 1)
    assert result.usages == pytest.approx({"broker-00": 81.0, "broker-01": 9.0})


def test_overload_leaves_a_broker_with_one_bundle_alone() -> None:
    assert overload(cluster_of([(95.0,), (0.0,)], bundles=1)).moves == 0


def test_no_bundle_is_placed_on_an_overloaded_broker_unless_all_are() -> None:
    loads = cpus(90, 86, 40)
    assert overload(loads, 1).usages["broker-02"] > 40
    assert overload(loads, 1).usages["broker-01"] <= 86


def test_usage_is_that_of_the_largest_weighted_resource() -> None:
    usages = [(20.0, 0.0, 60.0, 90.0), (10.0,)]
    assert cluster_of(usages).usage("broker-00") == pytest.approx(60)  # direct memory has no weight by default
    weights = {**WEIGHTS, "bandwidth-out": 0.5, "direct-memory": 1.0}
    assert cluster_of(usages, settings=ShedderSettings(weights=weights)).usage("broker-00") == pytest.approx(90)


def test_a_resource_without_weight_makes_no_broker_shed() -> None:
    usages = [(20.0, 0.0, 80.0), (20.0,)]
    without = ShedderSettings(weights={**WEIGHTS, "bandwidth-out": 0.0})
    plays = {
        name: (play(name, cluster_of(usages), 60), play(name, cluster_of(usages, settings=without), 60))
        for name in ("threshold", "avg")
    }
    assert all(moved.moves > 0 == left.moves for moved, left in plays.values())


@pytest.mark.parametrize("name", ["threshold", "avg"])
def test_both_level_a_cluster_with_two_thirds_of_the_load_on_one_of_five(name: str) -> None:
    result = play(name, cluster_of(CASES["two-thirds-on-one"], bundles=60), 30)
    assert result.uneven_after < result.uneven_before / 3


@given(st.sampled_from(sorted(SHEDDERS)), st.lists(st.floats(0, 100), min_size=1, max_size=8), st.integers(1, 70))
def test_no_bundle_is_lost_or_moved_twice_within_the_grace_time(
    name: str, usages: Sequence[float], minutes: int
) -> None:
    loads = cpus(*usages)
    before = sorted(bundle.name for bundles in loads.bundles.values() for bundle in bundles)
    result = play(name, loads, minutes)
    assert sorted(bundle.name for bundles in loads.bundles.values() for bundle in bundles) == before
    assert minutes > GRACE_MINUTES or not result.moved_twice


def test_nonsense_is_refused() -> None:
    for usages in ([], [-1.0], [101.0], [float("nan")]):
        with pytest.raises(InvalidInput, match="between 0 and 100"):
            cpus(*usages)
    with pytest.raises(InvalidInput, match="0 bundles"):
        cluster_of([(1.0,)], 0)
    with pytest.raises(InvalidInput, match="1 to 4 usages"):
        cluster_of([(1.0,) * 5])


def test_shedders_are_compared_on_the_same_cluster() -> None:
    plays = compare_shedders(CASES["one-empty"], bundles=20, minutes=TWO_HOURS)
    assert set(plays) == set(SHEDDERS)
    assert len({one.uneven_before for one in plays.values()}) == 1
    assert plays["threshold"].moves == 0 < plays["avg"].moves
