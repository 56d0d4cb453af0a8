"""Whole numbers, and no drift: after a thousand million grants, and where virtual times begin again at 0."""

import random
from typing import cast

import pytest

from backends.redis.client import assemble, lua_folder, lua_texts
from backends.redis.view import RedisView
from dispatcher.model.pools import MAX_CAP
from dispatcher.model.tier import MAX_WEIGHT, MILLI, SHARED_BY
from tests.contract.ledger_crowd import Backlog, add_tasks, assert_tallied, assert_whole, crowd_of
from tests.contract.ledger_worlds import LawWorld, Worlds, ask, ask_own, in_process_worlds, own_lane

WEIGHTS = {"high": 0.6, "medium": 0.3, "low": 0.1}
FAST = 200_000_000
LARGEST = 1 << 50
"""As in quotas/lua/shared/integers.lua."""


def a_thousand_million(world: LawWorld) -> Backlog:
    crowd = crowd_of(world, {"high": 2, "medium": 1, "low": 1}, rate=FAST, workers=1, size=500, ask_targets=FAST // 6)
    world.change("high1", "weight", "333")
    crowd.run_until(6_000)
    return crowd


@pytest.fixture(scope="module")
def in_process() -> Backlog:
    return a_thousand_million(in_process_worlds()())


def test_after_a_thousand_million_grants_shares_are_as_at_first(world: LawWorld, in_process: Backlog) -> None:
    """And every Redis has granted the same, to the last envelope."""
    crowd = a_thousand_million(world)
    assert crowd.doses == in_process.doses
    granted = crowd.sums(0, 6_000)
    assert granted.total() > 10**9
    assert crowd.shares(5_000, 6_000) == pytest.approx(WEIGHTS, abs=0.01)
    assert granted.total() == pytest.approx(6 * FAST, rel=0.03)
    assert granted["high1"] / granted["high0"] == pytest.approx(0.333, rel=0.01)
    assert_tallied(world)
    assert_whole(world)


def test_times_begin_again_without_a_trace(world: LawWorld) -> None:
    lanes = {"high": 2, "medium": 2, "low": 1}
    tasks = [task for names in add_tasks(world, lanes).values() for task in names]
    world.set_capacity(2_000)
    world.set_global("cap:channel:null", "1500")
    crowd = Backlog(world, held={"a": tasks, "b": tasks}, period_ms={"a": 100, "b": 70})
    crowd.run_until(1_000)
    for pool in ("total", "channel/null"):
        make_old(world, pool)
    crowd.run_until(7_000)
    assert_whole(world)
    granted = crowd.sums(2_000, 7_000)
    assert crowd.shares(2_000, 7_000) == pytest.approx(WEIGHTS, abs=0.02)
    assert granted.total() >= 0.98 * 5 * 1_500
    assert granted["high0"] == pytest.approx(granted["high1"], rel=0.1)


def drawn_back(world: LawWorld, sharing: str) -> tuple[int, int]:
    """Times of the high tier when a lane has waited for long, and when it was taken up; at the largest cap, burst and
    weight of apps there are."""
    for app, weight in (("shop", MILLI), ("bank", MILLI - 7)):
        world.set_global(f"app_weight:{app}", str(weight * MAX_WEIGHT))
        world.add("steady" if app == "shop" else "waits", app=app, weight=weight)
    world.set_global("sharing", sharing)
    world.set_global("capacity", f"{MAX_CAP}:{MAX_CAP}")
    waits = ask(own_lane("waits"), demand=MAX_CAP, waiting=True)
    for number in (1, 2):
        world.lease(number, ask_own("steady", number, 1), waits, waiting_ms=3_000)
    make_old(world, "total", LARGEST // 4 * 3 - 789_643, of_lanes=False)
    before = time_of_high(world)
    world.lease(3, ask_own("steady", 3, 1), ask_own("waits", 0, 1))
    assert_whole(world)
    return before, time_of_high(world)


@pytest.mark.parametrize("sharing", SHARED_BY)
def test_what_a_lane_is_owed_is_exact_at_the_largest_cap(worlds: Worlds, sharing: str) -> None:
    before, after = drawn_back(worlds(), sharing)
    assert (before, after) == drawn_back(in_process_worlds()(), sharing)
    assert after < before


def time_of_high(world: LawWorld) -> int:
    """Virtual, in the total."""
    return int(world.view.client.hget(world.view.keys.pool("total"), "time:high") or 0)


def make_old(world: LawWorld, pool: str, by: int = 2 * LARGEST, *, of_lanes: bool = True) -> None:
    """The times of the high tier and of its lanes are as after many years."""
    client, keys = world.view.client, world.view.keys
    lanes_by = by if of_lanes else 0
    client.hincrby(keys.pool(pool), "time:high", by)
    for lane, text in cast("dict[bytes, bytes]", client.hgetall(keys.virtual_times(pool))).items():
        tier, time, *rest = text.decode().split(" ")
        if tier == "high":
            client.hset(keys.virtual_times(pool), lane, " ".join([tier, str(int(time) + lanes_by), *rest]))


def test_parts_of_the_largest_amounts_are_exact(view: RedisView) -> None:
    numbers = "tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])"
    script = assemble("integers", lua_texts(lua_folder("quotas"))) + f"return string.format('%.0f', mul_div({numbers}))"
    rng = random.Random(1)
    for _ in range(500):
        amount, whole = rng.randrange(LARGEST // 4, LARGEST), rng.randrange(LARGEST // 4, LARGEST)
        part = rng.randrange(whole)
        assert int(view.client.eval(script, 0, amount, part, whole)) == amount * part // whole
