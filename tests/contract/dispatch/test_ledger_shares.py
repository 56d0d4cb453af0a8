"""Laws 1, 2, 4, 5: capacity is shared by weight however lanes are held; none is wasted; changes show at once."""

import pytest

from tests.contract.ledger_crowd import Backlog, add_tasks, crowd_of
from tests.contract.ledger_worlds import LawWorld

CAPACITY = 2_000


def test_what_a_capped_task_cannot_use_goes_to_the_others(world: LawWorld) -> None:
    add_tasks(world, {"high": 1}, cap=100)
    add_tasks(world, {"low": 2})
    world.set_capacity(CAPACITY)
    tasks = ["high0", "low0", "low1"]
    crowd = Backlog(world, held={"a": tasks, "b": tasks}, period_ms={"a": 100, "b": 100})
    crowd.run_until(6_000)
    granted = crowd.sums(1_000, 6_000)
    assert granted.total() >= 0.98 * 5 * CAPACITY
    assert granted["high0"] == pytest.approx(500, abs=30)


@pytest.mark.parametrize("other", ["low0", "high1"])
def test_what_a_paused_task_cannot_use_goes_to_the_others(world: LawWorld, other: str) -> None:
    """Though its lane is still held, and asked for; also to one of its own tier that asks five times a second only."""
    add_tasks(world, {"high": 2, "low": 1})
    world.set_capacity(CAPACITY)
    world.change("high0", "paused", "1")
    crowd = Backlog(world, held={"a": ["high0", other]}, period_ms={"a": 200}, ask_targets=1_000)
    crowd.run_until(6_000)
    granted = crowd.sums(1_000, 6_000)
    assert granted[other] >= 0.97 * 5 * CAPACITY
    assert not granted["high0"]


def test_small_tasks_end_in_their_fair_time_beside_a_large_one(world: LawWorld) -> None:
    crowd = crowd_of(world, {"high": 10})
    small = list(crowd.works.values())[1:]
    for work in small:
        work.left = 1_000
    fair_ms = 10 * 1_000 * 1_000 // CAPACITY
    crowd.run_until(int(1.3 * fair_ms))
    assert all(work.left <= 0 for work in small)


@pytest.mark.parametrize("weights", [(7_000, 2_000, 1_000), (500, 1, 499)])
def test_tasks_of_a_tier_share_by_weight(world: LawWorld, weights: tuple[int, int, int]) -> None:
    crowd = crowd_of(world, {"high": 3})
    for task, weight in zip(crowd.works, weights, strict=True):
        world.change(task, "weight", str(weight))
    crowd.run_until(11_000)
    granted = crowd.sums(1_000, 11_000)
    for task, weight in zip(crowd.works, weights, strict=True):
        assert granted[task] / granted.total() == pytest.approx(weight / sum(weights), abs=0.01)


def test_neither_a_capped_task_nor_its_peer_owes_for_the_time_of_the_cap(world: LawWorld) -> None:
    crowd = crowd_of(world, {"high": 2})
    world.change("high1", "cap", "10")
    crowd.run_until(5_000)
    world.change("high1", "cap", "0")
    crowd.run_until(7_000)
    for from_ms in (5_000, 6_000):
        lifted = crowd.sums(from_ms, from_ms + 1_000)
        assert lifted["high0"] / lifted.total() == pytest.approx(0.5, abs=0.15 if from_ms == 5_000 else 0.05)


def test_one_that_had_the_tier_alone_does_not_pay_for_it(world: LawWorld) -> None:
    tasks = add_tasks(world, {"high": 2})["high"]
    world.set_capacity(CAPACITY)
    crowd = Backlog(world, held={"a": tasks[:1], "b": tasks[1:]}, period_ms={"a": 50, "b": 100})
    crowd.works["high1"].backlog = False
    crowd.run_until(5_000)
    crowd.works["high1"].backlog = True
    crowd.run_until(8_000)
    after = crowd.sums(5_500, 8_000)
    assert after["high0"] == pytest.approx(after["high1"], rel=0.05)


def test_weights_as_large_as_may_be_are_shared_to_the_last_part(world: LawWorld) -> None:
    """A target then moves a lane's time by a unit or two: what a division leaves over counts (dropped, the third lane
    gets nothing)."""
    weights = {"high0": 600_000, "high1": 510_000, "high2": 510_000}
    crowd = crowd_of(world, {"high": 3}, rate=30, workers=1, period_ms=20, ask_targets=20)
    for task, weight in weights.items():
        world.change(task, "weight", str(weight))
    crowd.run_until(21_000)
    granted = crowd.sums(1_000, 21_000)
    for task, weight in weights.items():
        assert granted[task] / granted.total() == pytest.approx(weight / sum(weights.values()), abs=0.01)


def test_a_lane_that_left_ahead_of_its_tier_is_owed_nothing_when_it_comes_back_behind_it(world: LawWorld) -> None:
    """One envelope puts a light lane two seconds ahead. It is away for twenty."""
    crowd = crowd_of(world, {"high": 2}, workers=1, period_ms=50, size=20)
    world.change("high1", "weight", "5")
    while not crowd.sums(0, 60_000)["high1"]:
        crowd.run_until((crowd.doses[-1].at_ms if crowd.doses else 0) + 100)
    left_ms = crowd.doses[-1].at_ms
    crowd.works["high1"].backlog = False
    crowd.run_until(left_ms + 20_000)
    crowd.works["high1"].backlog = True
    crowd.run_until(left_ms + 28_000)
    fair = 8 * CAPACITY * 5 / 1_005
    assert crowd.sums(left_ms + 20_000, left_ms + 28_000)["high1"] == pytest.approx(fair, abs=40)


@pytest.mark.parametrize("leaves", ["asks no more", "is paused"])
def test_a_lane_that_leaves_whenever_it_is_ahead_gains_nothing(world: LawWorld, leaves: str) -> None:
    """One envelope puts a light lane two seconds ahead; it goes away each time, and is back half a second later."""
    crowd = crowd_of(world, {"high": 2}, workers=1, period_ms=50, size=20)
    world.change("high1", "weight", "5")
    for until_ms in range(100, 30_000, 100):
        crowd.run_until(until_ms)
        away = crowd.sums(until_ms - 600, until_ms)["high1"] > 0
        if leaves == "is paused":
            world.change("high1", "paused", str(int(away)))
        else:
            crowd.works["high1"].backlog = not away
    fair = 30 * CAPACITY * 5 / 1_005
    assert crowd.sums(0, 30_000)["high1"] <= fair + 40
