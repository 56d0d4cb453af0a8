"""The shedders of Pulsar 4.0: what they move, and the loads at which they are known to be stuck."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.model.errors import InvalidInput
from estate.shedder_cases import CASES, cluster_of, compare_shedders
from estate.shedders import GRACE_MINUTES, SHEDDERS, Loads, play

TWO_HOURS = 120
STUCK = [CASES["one-busy"], CASES["one-empty"], CASES["one-low"]]


@pytest.mark.parametrize("usages", STUCK, ids=str)
def test_threshold_moves_nothing_in_the_stuck_cases_of_pip_220(usages: Sequence[float]) -> None:
    assert play("threshold", cluster_of(usages), TWO_HOURS).moves == 0


@pytest.mark.parametrize(("usages", "moves"), list(zip(STUCK, [False, True, True], strict=True)), ids=str)
def test_avg_moves_bundles_to_the_broker_that_threshold_leaves_empty(usages: Sequence[float], moves: bool) -> None:
    result = play("avg", cluster_of(usages), TWO_HOURS)
    assert bool(result.moves) == moves  # the first case is below the 15 points at which Avg begins
    assert (result.uneven_after < result.uneven_before) == moves


def test_avg_waits_for_two_severe_hits_or_eight_others() -> None:
    assert play("avg", cluster_of([60.0, 10.0]), 8).minutes_of_moves[0] == 1
    assert play("avg", cluster_of([40.0, 15.0]), 8).minutes_of_moves == (7,)


def test_avg_moves_a_fifth_of_the_gap() -> None:
    result = play("avg", cluster_of([60.0, 10.0]), 2)
    assert result.usages == pytest.approx({"broker-00": 51.0, "broker-01": 19.0})  # whole bundles of 3 points


def test_threshold_leaves_a_broker_ten_points_above_the_mean_and_sheds_from_one_further_above() -> None:
    assert play("threshold", cluster_of([59.0, 40.0]), TWO_HOURS).moves == 0
    result = play("threshold", cluster_of([80.0, 20.0]), TWO_HOURS)
    assert result.moves > 0
    assert result.uneven_after < result.uneven_before


@pytest.mark.parametrize("name", SHEDDERS)
def test_both_level_a_cluster_with_two_thirds_of_the_load_on_one_of_five(name: str) -> None:
    result = play(name, cluster_of(CASES["two-thirds-on-one"], bundles=60), 30)
    assert result.uneven_after < result.uneven_before / 3


@given(st.sampled_from(sorted(SHEDDERS)), st.lists(st.floats(0, 100), min_size=1, max_size=8), st.integers(1, 70))
def test_no_bundle_is_lost_or_moved_twice_within_the_grace_time(
    name: str, usages: Sequence[float], minutes: int
) -> None:
    loads = cluster_of(usages)
    before = sorted(bundle.name for bundles in loads.bundles.values() for bundle in bundles)
    result = play(name, loads, minutes)
    assert sorted(bundle.name for bundles in loads.bundles.values() for bundle in bundles) == before
    assert minutes > GRACE_MINUTES or not result.moved_twice


def test_nonsense_is_refused() -> None:
    with pytest.raises(InvalidInput, match="threshold, avg"):
        play("best", cluster_of([1.0]), 1)
    with pytest.raises(InvalidInput, match="no broker"):
        play("avg", Loads({}), 1)
    for usages in ([], [-1.0], [101.0], [float("nan")]):
        with pytest.raises(InvalidInput, match="between 0 and 100"):
            cluster_of(usages)
    with pytest.raises(InvalidInput, match="0 bundles"):
        cluster_of([1.0], 0)


def test_shedders_are_compared_on_the_same_cluster() -> None:
    compared = compare_shedders("one-empty", CASES["one-empty"], bundles=20, minutes=TWO_HOURS)
    assert set(compared.plays) == set(SHEDDERS)
    assert len({one.uneven_before for one in compared.plays.values()}) == 1
    assert compared.plays["threshold"].moves == 0 < compared.plays["avg"].moves
