"""Whole numbers, and no drift: after a thousand million grants, and where virtual times begin again at 0."""

import pytest

from dispatcher.memory.pools import LARGEST
from tests.contract.ledger_crowd import Backlog, add_tasks, assert_tallied, assert_whole
from tests.contract.ledger_worlds import MemoryWorld, RedisWorld, World, Worlds, capacity, change, setting

WEIGHTS = {"high": 0.6, "medium": 0.3, "low": 0.1}
FAST = 200_000_000


def a_thousand_million(world: World) -> Backlog:
    tasks = [task for names in add_tasks(world, {"high": 2, "medium": 1, "low": 1}).values() for task in names]
    world.apply(change("high1", "weight", "333"))
    world.apply(capacity(FAST))
    crowd = Backlog(world, {"a": tasks}, {"a": 100}, size=500, ask_targets=FAST // 6)
    crowd.run_until(6_000)
    return crowd


@pytest.fixture(scope="module")
def in_memory() -> Backlog:
    return a_thousand_million(MemoryWorld())


def test_after_a_thousand_million_grants_shares_are_as_at_first(worlds: Worlds, in_memory: Backlog) -> None:
    """And both ledgers have granted the same, to the last envelope."""
    world = worlds()
    crowd = a_thousand_million(world)
    assert crowd.grants == in_memory.grants
    granted = crowd.sums(0, 6_000)
    assert granted.total() > 10**9
    assert crowd.shares(5_000, 6_000) == pytest.approx(WEIGHTS, abs=0.01)
    assert granted.total() == pytest.approx(6 * FAST, rel=0.03)
    assert granted["high1"] / granted["high0"] == pytest.approx(0.333, rel=0.01)
    assert_tallied(world)
    assert_whole(world)


def test_times_begin_again_without_a_trace(worlds: Worlds) -> None:
    world = worlds()
    lanes = {"high": 2, "medium": 2, "low": 1}
    tasks = [task for names in add_tasks(world, lanes).values() for task in names]
    world.apply(capacity(2_000))
    world.apply(setting("cap:channel:null", "1500"))
    crowd = Backlog(world, {"a": tasks, "b": tasks}, {"a": 100, "b": 70})
    crowd.run_until(1_000)
    for pool in ("total", "channel/null"):
        make_old(world, pool)
    crowd.run_until(7_000)
    assert_whole(world)
    granted = crowd.sums(2_000, 7_000)
    assert crowd.shares(2_000, 7_000) == pytest.approx(WEIGHTS, abs=0.02)
    assert granted.total() >= 0.98 * 5 * 1_500
    assert granted["high0"] == pytest.approx(granted["high1"], rel=0.1)


def make_old(world: World, pool: str) -> None:
    """The times of the high tier and of its lanes are as after many years."""
    if isinstance(world, MemoryWorld):
        share = world.view.pools[pool]
        share.tiers["high"].time += 2 * LARGEST
        for entry in share.lanes.values():
            entry.time += 2 * LARGEST if entry.tier == "high" else 0
        return
    assert isinstance(world, RedisWorld)
    client, keys = world.view.client, world.view.keys
    client.hincrby(keys.pool(pool), "time:high", 2 * LARGEST)
    for lane, text in client.hgetall(keys.virtual_times(pool)).items():
        tier, time, *rest = text.decode().split(" ")
        if tier == "high":
            client.hset(keys.virtual_times(pool), lane, " ".join([tier, str(int(time) + 2 * LARGEST), *rest]))
