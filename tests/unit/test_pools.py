"""Rules of a pool that no schedule of calls shows by itself."""

from dispatcher.memory.pools import UNIT, WINDOW_US, LaneTime, Pool

WEIGHTS = {"high": 6_000, "medium": 3_000, "low": 1_000}
RATE = 1_000


def pool_of(weight: int) -> Pool:
    """Of one lane in the high tier with all the demand there is, a second after it began."""
    pool = Pool(RATE, 0)
    pool.tiers["high"].busy, pool.tiers["high"].wanted = weight, RATE
    pool.refill(1_000_000, RATE, 0, WEIGHTS)
    return pool


def test_what_a_lane_is_owed_for_its_waiting_is_owed_until_it_goes_idle_only() -> None:
    pool = pool_of(weight=1_000)
    share = pool.tiers["high"]
    share.time = 100 * share.window
    pool.lanes["lane"] = LaneTime("high", 0)
    pool.enter("lane", "high", 1_000, idle=False, waited=True)
    assert pool.lanes["lane"].owed == 99 * share.window
    pool.enter("lane", "high", 1_000, idle=True, waited=False)
    assert (pool.lanes["lane"].time, pool.lanes["lane"].owed) == (share.time, 0)
    share.time += 10 * share.window
    pool.enter("lane", "high", 1_000, idle=False, waited=False)
    assert pool.lanes["lane"].time == share.time - share.window


def test_a_bucket_holds_no_more_than_a_window_and_owes_no_more_than_was_drawn() -> None:
    pool = pool_of(weight=1_000)
    share = pool.tiers["high"]
    assert share.bucket == share.depth <= RATE * WINDOW_US
    pool.enter("lane", "high", 1_000, idle=True, waited=False)
    pool.charge("lane", "high", 1_000, 700)
    assert share.bucket == share.depth - 700 * UNIT
    pool.refund("lane", "high", 1_000, 700)
    pool.refund("lane", "high", 1_000, 700)
    assert share.bucket == share.depth
