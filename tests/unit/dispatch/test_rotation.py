"""The working set: what has something to send comes first, and takes turns where there is not room for all."""

import pytest

from dispatcher.model.tier import Tier
from dispatcher.scheduling.rotation import LaneNeed, LaneRotation, RotationSettings
from lab.laws import jain


def rotation(**settings: int | float) -> LaneRotation:
    return LaneRotation(RotationSettings(**settings))  # type: ignore[arg-type]


def put(turns: LaneRotation, names: list[str], need: LaneNeed = LaneNeed.BUSY_FIRST, tier: Tier = Tier.HIGH) -> None:
    for name in names:
        turns.put(name, need, tier, 1_000, 10)


def named(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def test_all_are_attached_where_there_is_room() -> None:
    turns = rotation(max_lanes=10)
    put(turns, named("busy", 4))
    put(turns, named("idle", 6), LaneNeed.IDLE_FIRST)
    assert turns.choose(0.0, rotate=False)
    assert set(turns.chosen) == {*named("busy", 4), *named("idle", 6)}
    assert not turns.choose(1.0, rotate=True)


def test_lanes_with_something_to_send_go_before_idle_ones_and_own_before_those_of_others() -> None:
    turns = rotation(max_lanes=3)
    put(turns, ["idle"], LaneNeed.IDLE_FIRST)
    put(turns, ["other"], LaneNeed.BUSY)
    put(turns, ["own1", "own2"], LaneNeed.BUSY_FIRST)
    turns.choose(0.0, rotate=False)
    assert set(turns.chosen) == {"own1", "own2", "other"}
    turns.put("own1", LaneNeed.IDLE_FIRST, Tier.HIGH, 1_000, 10)
    turns.drop("other")
    turns.choose(1.0, rotate=False)
    assert set(turns.chosen) == {"own2", "idle", "own1"}


def test_no_tier_is_left_out() -> None:
    turns = rotation(max_lanes=9)
    put(turns, named("high", 50))
    put(turns, named("medium", 50), tier=Tier.MEDIUM)
    put(turns, ["low"], tier=Tier.LOW)
    turns.choose(0.0, rotate=True)
    assert {tier: sum(lane.tier == tier for lane in turns.chosen.values()) for tier in Tier} == {
        Tier.HIGH: 4,
        Tier.MEDIUM: 4,
        Tier.LOW: 1,
    }


def test_a_new_lane_is_attached_at_once_though_all_places_are_taken_and_stays_until_lanes_take_turns() -> None:
    turns = rotation(max_lanes=20)
    put(turns, named("old", 100))
    turns.choose(0.0, rotate=True)
    put(turns, ["new"])
    turns.choose(0.1, rotate=False)
    assert "new" in turns.chosen
    assert len(turns.chosen) == 21
    assert not turns.choose(0.2, rotate=False)
    turns.choose(1.0, rotate=True)
    assert len(turns.chosen) == 20


def test_lanes_are_attached_a_few_at_a_time() -> None:
    turns = rotation(max_lanes=100, attach_at_once=30)
    put(turns, named("busy", 100))
    sizes = []
    while turns.choose(0.0, rotate=False):
        sizes.append(len(turns.chosen))
    assert sizes == [30, 60, 90, 100]
    assert not turns.more


def test_a_lane_stays_for_a_while_and_few_are_exchanged_at_once() -> None:
    turns = rotation(max_lanes=16, hold_s=2.0, swap_part=8)
    put(turns, named("lane", 64))
    turns.choose(0.0, rotate=True)
    first = set(turns.chosen)
    for name in first:
        turns.served(name, 1_000)
    turns.choose(1.0, rotate=True)
    assert set(turns.chosen) == first
    turns.choose(2.0, rotate=True)
    assert len(first - set(turns.chosen)) == 2


def test_a_lane_stays_that_is_not_ahead_by_an_envelope() -> None:
    turns = rotation(max_lanes=4, hold_s=0.0)
    put(turns, named("lane", 8))
    turns.choose(0.0, rotate=True)
    first = set(turns.chosen)
    for name in first:
        turns.served(name, 10)
    assert not turns.choose(1.0, rotate=True)


def apart(turns: LaneRotation, names: list[str], seconds: range) -> int:
    """Return how far apart what lanes are served is, at 100 targets a second for each that is attached."""
    served = dict.fromkeys(names, 0)
    for second in seconds:
        turns.choose(float(second), rotate=True)
        for name in served.keys() & turns.chosen.keys():
            turns.served(name, 100)
            served[name] += 100
    return max(served.values()) - min(served.values())


def test_a_late_lane_does_not_make_up_for_the_past() -> None:
    turns = rotation(max_lanes=2, hold_s=0.0, swap_part=1)
    put(turns, named("old", 4))
    apart(turns, named("old", 4), range(20))
    put(turns, ["late"])
    assert apart(turns, [*named("old", 4), "late"], range(20, 70)) <= 400


def test_a_lane_in_another_tier_does_not_wait_for_what_it_was_sent_before() -> None:
    turns = rotation(max_lanes=4, hold_s=0.0)
    put(turns, named("high", 6))
    put(turns, named("low", 6), tier=Tier.LOW)
    turns.served("low0", 1_000_000)
    turns.choose(0.0, rotate=True)
    put(turns, ["low0"])
    assert apart(turns, [*named("high", 6), "low0"], range(1, 60)) <= 400


@pytest.mark.parametrize("places", [100, 250])
def test_a_thousand_lanes_take_turns_fairly_within_a_minute(places: int) -> None:
    """2,000 targets a second, chunks of 20, drawn by the lanes that are furthest behind of those attached."""
    turns = rotation(max_lanes=places)
    names = named("lane", 1_000)
    put(turns, names)
    sent = dict.fromkeys(names, 0)
    exchanged = 0
    for second in range(60):
        before = set(turns.chosen)
        turns.choose(float(second), rotate=True)
        exchanged += len(set(turns.chosen) - before)
        for _ in range(100):
            name = min(turns.chosen, key=sent.__getitem__)
            sent[name] += 20
            turns.served(name, 20)
    assert jain(list(sent.values())) >= (0.95 if places == 250 else 0.8)
    assert exchanged <= 60 * 64 + places
