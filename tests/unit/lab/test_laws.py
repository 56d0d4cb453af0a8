"""The quantities that the laws speak of."""

import pytest

from dispatcher.model.pools import NO_CAP, Cap
from lab.laws import CapSince, Gap, SendTurn, capacity_used, jain, longest_gap, overshoot, shares, sums_by_window

SECOND = 1_000_000
WEIGHTS = {"high": 6.0, "medium": 3.0, "low": 1.0}


def test_jain_is_one_for_equals_and_one_nth_for_one_that_has_all() -> None:
    assert jain([5, 5, 5, 5]) == 1
    assert jain([8, 0, 0, 0]) == pytest.approx(0.25)
    assert jain([2, 1]) == pytest.approx(0.9)
    assert jain([0, 0]) == 1


def test_sums_by_window_put_each_dose_where_it_belongs() -> None:
    doses = [(0, 1), (999_999, 2), (SECOND, 4), (2_500_000, 8), (3 * SECOND, 16)]
    assert sums_by_window(doses, SECOND, 3) == [3, 4, 8]


def test_shares_are_percentages() -> None:
    assert shares({"a": 3, "b": 1}) == {"a": 75, "b": 25}
    assert shares({"a": 0, "b": 0}) == {"a": 0, "b": 0}


def turns(*sends: tuple[str, int]) -> list[SendTurn]:
    return [SendTurn(place, tier, targets) for place, (tier, targets) in enumerate(sends)]


def test_the_longest_gap_is_what_others_were_sent_in_between() -> None:
    sent = turns(("low", 10), ("high", 20), ("medium", 30), ("low", 10), ("high", 5), ("low", 10))
    assert longest_gap(sent, {"low": [(0, 100)]}, "low", WEIGHTS) == Gap(50, 9 * 10 + 20 + 30, 3)
    found = longest_gap(sent, {"high": [(0, 100)]}, "high", WEIGHTS)
    assert found == pytest.approx((40, 4 / 6 * 20 + 40, 4))


def test_a_tier_that_had_nothing_left_does_not_wait() -> None:
    sent = turns(("low", 10), ("high", 500), ("low", 10), ("high", 20), ("low", 10))
    arrivals = {"low": [(0, 10), (2, 20)]}
    gap = longest_gap(sent, arrivals, "low", WEIGHTS)
    assert gap is not None
    assert gap.targets == 20
    assert longest_gap(sent, {"low": [(0, 10), (2, 10), (4, 10)]}, "low", WEIGHTS) is None


def test_a_gap_in_units_of_its_bound() -> None:
    assert Gap(30, 20.0, 0).ratio == 1.5


def test_overshoot_finds_the_second_nearest_to_its_limit() -> None:
    caps = [CapSince(0, Cap(100))]
    assert overshoot([(0, 25), (500_000, 50), (999_999, 60)], caps, 10) == pytest.approx((135, 135), abs=0.01)
    assert overshoot([(0, 25), (500_000, 50), (999_999, 80)], caps, 10) == pytest.approx((155, 135), abs=0.01)
    assert overshoot([(0, 25), (SECOND, 110)], caps, 10) == pytest.approx((110, 135), abs=0.01)


def test_what_is_given_back_makes_room_from_then_on() -> None:
    caps = [CapSince(0, Cap(10, 1))]
    assert overshoot([(0, 10), (100, -4), (200, 4)], caps, 0) == pytest.approx((10, 11), abs=0.01)
    assert overshoot([(0, 10), (200, 4), (300, -4)], caps, 0) == pytest.approx((14, 11), abs=0.01)


def test_a_cap_that_changes_counts_by_its_parts() -> None:
    caps = [CapSince(0, Cap(100)), CapSince(10 * SECOND, Cap(1_000))]
    assert overshoot([(10_400_000, 700)], caps, 0) == pytest.approx((700, 60 + 400 + 250))
    assert overshoot([(9_900_000, 120)], caps, 0) == (120, 125)


def test_without_a_cap_there_is_no_limit() -> None:
    assert overshoot([(0, 10**9)], [CapSince(0, NO_CAP)], 0) is None
    late = [CapSince(0, NO_CAP), CapSince(10 * SECOND, Cap(10, 1))]
    assert overshoot([(10_500_000, 10**9)], late, 0) is None
    assert overshoot([(11_500_000, 50)], late, 0) == (50, 11)


def test_only_windows_with_demand_all_through_count_for_the_use_of_capacity() -> None:
    granted = [10, 5, 10, 0]
    assert capacity_used(granted, [100, 100, 5, 0], [10] * 4) == 0.5
    assert capacity_used(granted, [100, 100, 100, 0], [10] * 4) == 0.75
    assert capacity_used(granted, [0, 0, 0, 0], [10] * 4) is None
    assert capacity_used(granted, [100] * 4, [0] * 4) is None
