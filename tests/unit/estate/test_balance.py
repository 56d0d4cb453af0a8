"""A plan never raises the largest load, whatever part of it is carried out, and has no move too many."""

from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dispatcher.model.errors import InvalidInput, Refused
from estate.plans.balance import (
    CLOSE_ENOUGH,
    MIN_GAIN,
    Move,
    WeightedBundle,
    hot_bundles,
    loads_of,
    plan_balance,
    plan_drain,
    spread_of,
)

weights = st.one_of(st.just(0.0), st.floats(0.001, 1e9), st.integers(0, 20).map(float))


Loaded = tuple[list[WeightedBundle], list[str]]
"""Bundles with their brokers, and all brokers."""


@st.composite
def estates(draw: st.DrawFn, least: int = 1) -> Loaded:
    brokers = [f"b{number}:8080" for number in range(draw(st.integers(least, 6)))]
    owners = draw(st.lists(st.sampled_from(brokers), max_size=24))
    return [WeightedBundle(f"t/n/{at}", owner, draw(weights)) for at, owner in enumerate(owners)], brokers


def carried_out(bundles: list[WeightedBundle], moves: list[Move]) -> list[WeightedBundle]:
    targets = {move.bundle: move.target for move in moves}
    return [WeightedBundle(bundle.name, targets.get(bundle.name, bundle.broker), bundle.weight) for bundle in bundles]


@given(estates(), st.data())
def test_whatever_part_of_a_plan_is_carried_out_the_largest_load_does_not_rise(
    estate: Loaded, data: st.DataObject
) -> None:
    bundles, brokers = estate
    plan = plan_balance(bundles, brokers)
    part = [move for move in plan.moves if data.draw(st.booleans())]
    before, after = loads_of(bundles, brokers), loads_of(carried_out(bundles, part), brokers)
    assert max(after.values()) <= max(before.values()) * (1 + 1e-9)


@given(estates())
def test_a_plan_is_never_worse_than_before(estate: Loaded) -> None:
    bundles, brokers = estate
    plan = plan_balance(bundles, brokers)
    assert plan.spread_after <= max(plan.spread_before, CLOSE_ENOUGH) + 1e-9
    assert bool(plan.moves) <= (plan.spread_before > CLOSE_ENOUGH)
    after = loads_of(carried_out(bundles, list(plan.moves)), brokers)
    assert plan.after == pytest.approx(after, abs=1e-3)


@given(estates())
def test_no_move_can_be_left_out(estate: Loaded) -> None:
    bundles, brokers = estate
    plan = plan_balance(bundles, brokers)
    for left_out in plan.moves:
        fewer = [move for move in plan.moves if move is not left_out]
        spread = spread_of(loads_of(carried_out(bundles, fewer), brokers))
        assert spread > max(plan.spread_after, CLOSE_ENOUGH) - 1e-6


@given(estates())
def test_moves_go_from_the_owner_largest_first_and_each_bundle_once(
    estate: Loaded,
) -> None:
    bundles, brokers = estate
    plan = plan_balance(bundles, brokers)
    owners = {bundle.name: bundle.broker for bundle in bundles}
    assert all(move.source == owners[move.bundle] != move.target for move in plan.moves)
    assert max(Counter(move.bundle for move in plan.moves).values(), default=1) == 1
    assert [move.weight for move in plan.moves] == sorted((move.weight for move in plan.moves), reverse=True)


SWAPPED = (  # the largest bundle fits into the gap, but its move only swaps two brokers
    [WeightedBundle(f"t/n/{at}", broker, weight) for at, (broker, weight) in enumerate(
        [("b0", 1.0), ("b1", 10010.0), ("b1", 12354.0), ("b0", 989683.0), ("b0", 989683.0)])],
    ["b0", "b1", "b2", "b3"],
)  # fmt: skip


@example(SWAPPED)
@given(estates())
def test_plans_in_a_row_end_close_or_where_no_move_helps(estate: Loaded) -> None:
    bundles, brokers = estate
    for _ in range(12):
        moves = plan_balance(bundles, brokers).moves
        if not moves:
            break
        bundles = carried_out(bundles, list(moves))
    else:
        pytest.fail("plans do not end")
    spread = spread_of(loads_of(bundles, brokers))
    for at, bundle in enumerate(bundles if spread > CLOSE_ENOUGH else []):
        for target in brokers:
            moved = [*bundles[:at], WeightedBundle(bundle.name, target, bundle.weight), *bundles[at + 1 :]]
            # Twice, since the planner compares with its own best plan, in which no broker both gives and takes.
            assert spread_of(loads_of(moved, brokers)) > spread - 2 * MIN_GAIN - 1e-6


@given(estates(least=2), st.data())
def test_a_drain_leaves_nothing_behind_and_touches_no_other_bundle(estate: Loaded, data: st.DataObject) -> None:
    bundles, brokers = estate
    drained = data.draw(st.sampled_from(brokers))
    plan = plan_drain(bundles, brokers, drained)
    after = carried_out(bundles, list(plan.moves))
    assert not [bundle for bundle in after if bundle.broker == drained]
    assert {move.source for move in plan.moves} <= {drained}
    assert plan.after[drained] == pytest.approx(0, abs=1e-3)


def test_a_drain_divides_bundles_without_load_by_number() -> None:
    bundles = [WeightedBundle(f"t/n/{at}", "a", 0.0) for at in range(20)]
    targets = Counter(move.target for move in plan_drain(bundles, ["a", "b", "c"], "a").moves)
    assert targets == {"b": 10, "c": 10}


def test_loads_after_a_plan_that_was_carried_out_are_those_of_the_moves_that_were_made() -> None:
    bundles = [WeightedBundle(f"t/n/{number}", "a", 1.0) for number in range(4)]
    plan = plan_drain(bundles, ["a", "b"], "a")
    assert plan.after == {"a": 0.0, "b": 4.0}
    assert plan.with_only(plan.moves[:1]).after == {"a": 3.0, "b": 1.0}
    assert plan.with_only(()).after == plan.before


def test_the_last_broker_is_not_drained() -> None:
    with pytest.raises(Refused, match="Start another one first"):
        plan_drain([WeightedBundle("t/n/0", "a", 1.0)], ["a"], "a")


def test_one_bundle_that_carries_everything_is_called_hot() -> None:
    bundles = [
        WeightedBundle("t/n/0", "a", 100.0),
        WeightedBundle("t/n/1", "a", 1.0),
        WeightedBundle("t/n/2", "b", 1.0),
    ]
    plan = plan_balance(bundles, ["a", "b"])
    assert [move.bundle for move in plan.moves] == ["t/n/1"]
    assert [bundle.name for bundle in hot_bundles(bundles, plan)] == ["t/n/0"]


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
def test_a_load_that_is_no_load_is_refused(weight: float) -> None:
    with pytest.raises(InvalidInput, match="t/n/0"):
        plan_balance([WeightedBundle("t/n/0", "a", weight)], ["a", "b"])
