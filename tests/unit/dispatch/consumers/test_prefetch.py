"""The prefetch budget: never less than a producer's batch, never more than all lanes may have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.lanes.prefetch import ENVELOPE_COST, PrefetchBudget, PrefetchSettings, too_different
from dispatcher.ports import LaneInfo
from tests.records import lane_info

SETTINGS = PrefetchSettings(budget_targets=100_000, producer_batch=100, batches=4, max_queue=4_000)


def lane(name: str = "a", chunk: int = 1, tier: str = "medium") -> LaneInfo:
    return lane_info(name, chunk=chunk, tier=tier)


def test_a_queue_follows_what_is_wanted() -> None:
    assert PrefetchBudget(SETTINGS).take(lane(), 1_000) == 1_500
    assert PrefetchBudget(SETTINGS).take(lane(chunk=10), 2_000) == 600
    assert PrefetchBudget(PrefetchSettings()).take(lane(tier="high"), 1_000_000) == pytest.approx(4_000, rel=0.01)


def test_a_queue_holds_some_producer_batches_whatever_is_wanted() -> None:
    assert PrefetchBudget(SETTINGS).take(lane(), 1) == 600


@pytest.mark.parametrize("wanted", [1_200, 2_000, 1_000_000])
def test_queues_stand_to_each_other_as_the_tiers_weights_whatever_is_wanted(wanted: int) -> None:
    settings = PrefetchSettings(budget_targets=10_000_000)
    high, medium, low = [PrefetchBudget(settings).take(lane(tier=tier), wanted) for tier in ("high", "medium", "low")]
    assert high / low == pytest.approx(6, rel=0.01)
    assert medium / low == pytest.approx(3, rel=0.01)


def test_queues_of_large_envelopes_are_short() -> None:
    assert PrefetchBudget(SETTINGS).take(lane(chunk=500), 2_000) == 36


def test_those_who_come_later_find_something() -> None:
    budget = PrefetchBudget(SETTINGS)
    queues = [budget.take(lane(str(number)), 4_000) for number in range(6)]
    assert queues == sorted(queues, reverse=True)
    assert queues[0] > 1_900
    assert queues[-1] > 400


def test_a_lane_that_goes_gives_its_part_back() -> None:
    budget = PrefetchBudget(SETTINGS)
    budget.take(lane("a"), 2_000)
    left = budget.take(lane("b"), 2_000)
    budget.give_back("a")
    budget.give_back("a")
    assert budget.spent_targets == left * (1 + ENVELOPE_COST)
    budget.take(lane("b"), 400)
    assert budget.spent_targets == 600 * (1 + ENVELOPE_COST)


def test_a_light_lane_gets_a_batch_free_of_charge() -> None:
    budget = PrefetchBudget(SETTINGS)
    assert [budget.take(lane(str(number)), 0) for number in range(1_000)] == [100] * 1_000
    assert budget.spent_targets == 0
    assert budget.take(lane("0"), 4_000) > 1_000
    assert budget.spent_targets > 0


@given(st.lists(st.tuples(st.integers(1, 500), st.integers(0, 100_000)), min_size=1, max_size=40))
def test_all_queues_together_stay_within_the_budget_but_for_a_batch_each(lanes: list[tuple[int, int]]) -> None:
    budget = PrefetchBudget(SETTINGS)
    least = 0
    for number, (chunk, wanted) in enumerate(lanes):
        queue = budget.take(lane(str(number), chunk), wanted)
        assert queue >= 1
        least += min(queue, 100) * (chunk + ENVELOPE_COST)
    assert budget.spent_targets <= max(SETTINGS.budget_targets, least) + least


def test_only_a_queue_that_is_far_off_is_exchanged() -> None:
    assert not too_different(400, 1_600)
    assert too_different(400, 1_601)
    assert not too_different(400, 100)
    assert too_different(401, 100)
