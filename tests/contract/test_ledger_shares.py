"""Laws 1, 2, 4, 5: capacity is shared by weight however lanes are held; none is wasted; changes show at once."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.contract.ledger_crowd import Backlog, add_tasks, crowd_of, jain
from tests.contract.ledger_worlds import LawWorld, Worlds

CAPACITY = 2_000
LANES = {"high": 3, "medium": 3, "low": 2}
WEIGHTS = {"high": 0.6, "medium": 0.3, "low": 0.1}
HOLDINGS: dict[str, tuple[dict[str, tuple[str, ...]], dict[str, int]]] = {
    "both hold all": ({"a": ("high", "medium", "low"), "b": ("high", "medium", "low")}, {"a": 100, "b": 100}),
    "one holds only low": ({"a": ("high", "medium", "low"), "b": ("low",)}, {"a": 100, "b": 100}),
    "low asks ten times as often": ({"a": ("high", "medium"), "b": ("low",)}, {"a": 100, "b": 10}),
    "high asks ten times as often": ({"a": ("high",), "b": ("medium", "low")}, {"a": 10, "b": 100}),
}


@pytest.mark.parametrize("name", HOLDINGS)
def test_tiers_share_by_weight_in_each_window_whoever_holds_their_lanes(world: LawWorld, name: str) -> None:
    tasks = add_tasks(world, LANES)
    world.set_capacity(CAPACITY)
    holds, periods = HOLDINGS[name]
    held = {worker: [task for tier in tiers for task in tasks[tier]] for worker, tiers in holds.items()}
    crowd = Backlog(world=world, held=held, period_ms=periods)
    crowd.run_until(11_000)
    for from_ms in (1_000, 6_000):
        shares = crowd.shares(from_ms, from_ms + 5_000)
        assert shares == pytest.approx(WEIGHTS, abs=0.02)
        assert crowd.sums(from_ms, from_ms + 5_000).total() >= 0.98 * 5 * CAPACITY


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    envelope=st.sampled_from([1, 5, 50]),
    periods=st.lists(st.integers(20, 110), min_size=2, max_size=3),
    holders=st.randoms(use_true_random=False),
    rate=st.sampled_from([500, 2_000, 20_000]),
)
def test_shares_hold_for_any_holding_and_rhythm(worlds: Worlds, envelope, periods, holders, rate) -> None:  # type: ignore[no-untyped-def]
    world = worlds()
    tasks = [task for names in add_tasks(world, LANES).values() for task in names]
    world.set_capacity(rate)
    workers = [f"w{number}" for number in range(len(periods))]
    holder = {task: holders.choice(workers) for task in tasks}
    held = {worker: [task for task in tasks if holder[task] == worker or holders.random() < 0.3] for worker in workers}
    crowd = Backlog(
        world=world,
        held=held,
        period_ms=dict(zip(workers, periods, strict=True)),
        size=envelope,
        ask_targets=rate // 8 + envelope,
    )
    crowd.run_until(7_000)
    slack = 0.02 + 3 * envelope / (6 * rate)
    assert crowd.shares(1_000, 7_000) == pytest.approx(WEIGHTS, abs=slack)
    assert crowd.sums(1_000, 7_000).total() >= 0.97 * 6 * rate - 3 * envelope


@pytest.mark.parametrize("lanes", [{"low": 1}, {"low": 4}, {"medium": 2, "low": 2}, {"high": 1}])
def test_what_an_idle_tier_cannot_use_goes_to_the_others(world: LawWorld, lanes: dict[str, int]) -> None:
    crowd = crowd_of(world, lanes)
    crowd.run_until(6_000)
    assert crowd.sums(1_000, 6_000).total() >= 0.98 * 5 * CAPACITY
    total = sum(WEIGHTS[tier] for tier in lanes)
    assert crowd.shares(1_000, 6_000) == pytest.approx({tier: WEIGHTS[tier] / total for tier in lanes}, abs=0.02)


def test_what_a_capped_task_cannot_use_goes_to_the_others(world: LawWorld) -> None:
    add_tasks(world, {"high": 1}, cap=100)
    add_tasks(world, {"low": 2})
    world.set_capacity(CAPACITY)
    tasks = ["high0", "low0", "low1"]
    crowd = Backlog(world=world, held={"a": tasks, "b": tasks}, period_ms={"a": 100, "b": 100})
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
    crowd = Backlog(world=world, held={"a": ["high0", other]}, period_ms={"a": 200}, ask_targets=1_000)
    crowd.run_until(6_000)
    granted = crowd.sums(1_000, 6_000)
    assert granted[other] >= 0.97 * 5 * CAPACITY
    assert not granted["high0"]


def test_equal_lanes_of_a_tier_get_equal_parts(world: LawWorld) -> None:
    tasks = add_tasks(world, {"high": 10})["high"]
    world.set_capacity(CAPACITY)
    held = {"a": tasks[:7], "b": tasks[5:]}
    crowd = Backlog(world=world, held=held, period_ms={"a": 100, "b": 20})
    crowd.run_until(6_000)
    granted = crowd.sums(1_000, 6_000)
    assert jain([granted[task] for task in tasks]) >= 0.995


def test_small_tasks_end_in_their_fair_time_beside_a_large_one(world: LawWorld) -> None:
    crowd = crowd_of(world, {"high": 10})
    for task in crowd.tasks[1:]:
        crowd.left[task] = 1_000
    fair_ms = 10 * 1_000 * 1_000 // CAPACITY
    crowd.run_until(int(1.3 * fair_ms))
    assert all(crowd.left[task] <= 0 for task in crowd.tasks[1:])


@pytest.mark.parametrize("weights", [(7_000, 2_000, 1_000), (500, 1, 499)])
def test_tasks_of_a_tier_share_by_weight(world: LawWorld, weights: tuple[int, int, int]) -> None:
    crowd = crowd_of(world, {"high": 3})
    for task, weight in zip(crowd.tasks, weights, strict=True):
        world.change(task, "weight", str(weight))
    crowd.run_until(11_000)
    granted = crowd.sums(1_000, 11_000)
    for task, weight in zip(crowd.tasks, weights, strict=True):
        assert granted[task] / granted.total() == pytest.approx(weight / sum(weights), abs=0.01)


def test_a_change_of_weight_tier_or_tiers_shows_at_once(world: LawWorld) -> None:
    crowd = crowd_of(world, {"high": 2, "low": 1})
    crowd.run_until(2_000)
    world.change("high0", "weight", "3000")
    crowd.run_until(6_000)
    weighed = crowd.sums(3_000, 6_000)
    assert weighed["high0"] / (weighed["high0"] + weighed["high1"]) == pytest.approx(0.75, abs=0.02)
    world.change("high1", "tier", "low")
    crowd.run_until(10_000)
    moved = crowd.sums(7_000, 10_000)
    assert moved["high0"] / moved.total() == pytest.approx(6 / 7, abs=0.02)
    assert moved["high1"] == pytest.approx(moved["low0"], rel=0.1)


def test_a_late_task_neither_waits_nor_owes(world: LawWorld) -> None:
    crowd = crowd_of(world, {"high": 3})
    crowd.left["high2"] = 0
    crowd.run_until(5_000)
    crowd.left["high2"] = 1 << 40
    crowd.run_until(9_000)
    first = crowd.sums(5_000, 6_000)
    assert first["high2"] == pytest.approx(CAPACITY / 3, rel=0.15)
    after = crowd.sums(6_000, 9_000)
    assert after["high2"] == pytest.approx(CAPACITY, rel=0.03)


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
    crowd = Backlog(world=world, held={"a": tasks[:1], "b": tasks[1:]}, period_ms={"a": 50, "b": 100})
    crowd.left["high1"] = 0
    crowd.run_until(5_000)
    crowd.left["high1"] = 1 << 40
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
        crowd.run_until((crowd.grants[-1].at_ms if crowd.grants else 0) + 100)
    left_ms = crowd.grants[-1].at_ms
    crowd.left["high1"] = 0
    crowd.run_until(left_ms + 20_000)
    crowd.left["high1"] = 1 << 40
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
            crowd.left["high1"] = 0 if away else 1 << 40
    fair = 30 * CAPACITY * 5 / 1_005
    assert crowd.sums(0, 30_000)["high1"] <= fair + 40
