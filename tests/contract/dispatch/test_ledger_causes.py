"""Lease calls count where a task's time goes."""

import pytest

from dispatcher.analysis.why import CauseShare
from dispatcher.model.tier import Tier
from dispatcher.wire.lease import LaneAsk, LaneKind
from dispatcher.wire.outcome import RETRY
from tests.contract.ledger_crowd import Backlog, add_tasks
from tests.contract.ledger_worlds import (
    TOPICS,
    LawWorld,
    Worlds,
    ask,
    ask_own,
    ask_retry,
    ask_shared,
    ask_side,
    mixed,
    own_lane,
    want,
)

LASTS_MS = 6_000
COUNTED_EVERY_MS = 500
PERIOD_MS = 100


def backlog(world: LawWorld, *tasks: str, workers: int = 2) -> Backlog:
    """All tasks have a backlog; every worker asks for all of them, for a while."""
    names = [f"w{number}" for number in range(workers)]
    crowd = Backlog(
        world, held=dict.fromkeys(names, tasks), period_ms=dict.fromkeys(names, PERIOD_MS), ask_targets=2_000
    )
    crowd.run_until(LASTS_MS)
    return crowd


def parts(world: LawWorld, task: str) -> dict[str, float]:
    """Parts of the counted time by cause, which is all of the time but for the two samples at its ends."""
    counted = world.why(task)
    total = sum(counted.values())
    assert LASTS_MS - 2 * (COUNTED_EVERY_MS + 2 * PERIOD_MS) <= total <= LASTS_MS
    assert all(CauseShare(cause, ms).meaning != cause for cause, ms in counted.items()), "each is told in words"
    return {cause: ms / total for cause, ms in counted.items()}


def test_a_capped_tasks_time_goes_to_its_cap(world: LawWorld) -> None:
    tasks = [task for names in add_tasks(world, {"high": 2, "low": 1}).values() for task in names]
    world.change("high0", "cap", "20")
    world.set_capacity(1_000)
    backlog(world, *tasks)
    assert parts(world, "high0").get("task_cap", 0) > 0.9
    assert "task_cap" not in parts(world, "high1")


@pytest.mark.parametrize("pool", ["channel/null", "app/shop", "app_channel/shop/null"])
@pytest.mark.parametrize("total", [0, 5_000])
def test_behind_the_cap_of_a_pool_it_goes_to_that_cap(world: LawWorld, pool: str, total: int) -> None:
    """With a capacity that others use up, too."""
    world.add("capped")
    world.add("other", app="club", channel="log")
    world.set_global(f"cap:{pool.replace('/', ':', 1)}", "50")
    world.set_capacity(total)
    backlog(world, "capped", "other")
    assert parts(world, "capped").get(f"cap:{pool}", 0) > 0.9
    assert f"cap:{pool}" not in parts(world, "other")


def test_behind_other_tiers_it_goes_to_their_shares_as_the_capacity_does(world: LawWorld) -> None:
    tasks = [task for names in add_tasks(world, {"high": 1, "low": 1}).values() for task in names]
    world.set_capacity(1_000)
    backlog(world, *tasks)
    for task, theirs in {"low0": 6 / 7, "high0": 1 / 7}.items():
        assert parts(world, task) == pytest.approx({"tier_share": theirs, "cap_total": 1 - theirs}, abs=0.05)


def test_behind_other_tasks_it_goes_to_their_weight(world: LawWorld) -> None:
    tasks = add_tasks(world, {"medium": 2})["medium"]
    world.change("medium0", "weight", "9000")
    world.set_capacity(1_000)
    backlog(world, *tasks)
    for task, theirs in {"medium0": 0.1, "medium1": 0.9}.items():
        assert parts(world, task) == pytest.approx({"task_weight": theirs, "cap_total": 1 - theirs}, abs=0.05)


def test_where_apps_share_it_goes_to_other_apps_and_to_tasks_of_its_own(world: LawWorld) -> None:
    for task, app in {"a": "shop", "b": "shop", "c": "club"}.items():
        world.add(task, app=app)
    world.set_global("sharing", "apps")
    world.set_global("app_weight:club", "3000")
    world.set_capacity(1_000)
    backlog(world, "a", "b", "c")
    assert parts(world, "a") == pytest.approx({"app_weight": 3 / 4, "task_weight": 1 / 8, "cap_total": 1 / 8}, abs=0.05)
    assert parts(world, "c") == pytest.approx({"app_weight": 1 / 4, "cap_total": 3 / 4}, abs=0.05)


def test_alone_it_goes_to_the_capacity(world: LawWorld) -> None:
    """Others of more weight that do not use it have no part in it."""
    tasks = add_tasks(world, {"high": 2})["high"]
    world.set_capacity(1_000)
    world.change("high0", "weight", "20000")
    world.change("high0", "cap", "1")
    backlog(world, *tasks)
    assert parts(world, "high1").get("cap_total", 0) > 0.8


@pytest.mark.parametrize("rate", [0, 1_000_000])
def test_what_gets_all_it_asks_for_is_being_sent(world: LawWorld, rate: int) -> None:
    tasks = add_tasks(world, {"high": 1})["high"]
    world.set_capacity(rate)
    backlog(world, *tasks)
    assert parts(world, "high0").get("sending", 0) > 0.9


def test_time_is_counted_once_whoever_asks(worlds: Worlds) -> None:
    for workers in (1, 9):
        world = worlds()
        tasks = add_tasks(world, {"high": 2})["high"]
        world.set_capacity(500)
        backlog(world, *tasks, workers=workers)
        assert sum(parts(world, "high0").values()) == pytest.approx(1)


def test_a_lane_that_nobody_holds_waits_for_a_worker(live: LawWorld) -> None:
    live.set_capacity(100)
    for number in range(1, 6):
        live.lease(number, ask(own_lane("t"), demand=50, waiting=True), waiting_ms=8_000)
        live.advance(4_000)
    assert live.why("t") == {"no_worker": 16_000}


def test_a_lane_that_another_worker_holds_does_not_wait_for_one(live: LawWorld) -> None:
    """The second worker announces it, since it is not attached to it itself."""
    live.set_capacity(100)
    for number in range(1, 20):
        live.lease(number, ask_own("t", 500 * number, 500), worker="a", demand_ms=600)
        live.advance(500)
        live.lease(number, ask(own_lane("t"), demand=50, waiting=True), worker="b")
        live.advance(100)
    assert "no_worker" not in live.why("t")
    assert sum(live.why("t").values()) > 9_000


def test_time_in_which_nobody_asks_is_not_counted(world: LawWorld) -> None:
    world.add("t", cap=1)
    for number, wait_ms in enumerate((600, 600, 60_000, 600, 600), 1):
        world.lease(number, ask_own("t", 0, 50))
        world.advance(wait_ms)
    assert sum(world.why("t").values()) == 3 * 600


def test_a_paused_tasks_time_is_not_counted(live: LawWorld) -> None:
    live.set_capacity(10)
    live.change("t", "paused", "1")
    for number in range(1, 6):
        live.lease(number, ask_own("t", 0, 50))
        live.advance(600)
    assert live.why("t") == {}


def test_tasks_of_a_shared_lane_are_held_back_with_it(world: LawWorld) -> None:
    add_tasks(world, {"high": 1})
    for task in ("small", "behind"):
        world.add(task, "low", shared=True)
    world.set_capacity(100)
    for number in range(1, 20):
        asks = [ask_shared(want("small", 0, 500), want("behind", 0, 50)), ask_own("high0", number * 500, 500)]
        world.lease(number, *asks)
        world.advance(100)
    for task in ("small", "behind"):
        found = world.why(task)
        assert found["tier_share"] > 0.8 * sum(found.values()) > 800


def test_behind_an_apps_cap_a_side_lane_waits_for_that(world: LawWorld) -> None:
    world.add("small", "low", shared=True)
    world.set_global("cap:app:shop", "5")
    for number in range(1, 20):
        world.lease(number, ask_side(want("small", 0, 500)))
        world.advance(100)
    found = world.why("small")
    assert found["cap:app/shop"] > 0.9 * sum(found.values()) > 900


@pytest.mark.parametrize("step_s", [1, 30, 600])
def test_between_two_attempts_a_task_waits_for_its_delay_at_most(live: LawWorld, step_s: int) -> None:
    lane = TOPICS.retry_lane(Tier.HIGH, step_s)
    live.lease(1, ask_own("t", 0, 1))
    live.record("t", mixed(0, [RETRY]))
    live.advance(step_s * 1_000 + 700)
    again = ask(lane, want("t", 0, 1, attempt=1), kind=LaneKind.RETRY, tier="high")
    live.lease(2, again)
    assert live.why("t") == {"retry_wait": step_s * 1_000, "provider": 700}


@pytest.mark.parametrize("fresh", [[ask_own("t", 50, 500)], []])
def test_the_retries_of_the_only_task_are_no_other_tasks(live: LawWorld, fresh: list[LaneAsk]) -> None:
    live.lease(1, ask_own("t", 0, 50))
    for position in range(50):
        live.record("t", mixed(position, [RETRY]))
    live.set_capacity(10)
    for number in range(2, 40):
        live.advance(500)
        later = ask(TOPICS.retry_lane(Tier.HIGH, 30), want("t", 25, 25, attempt=1), kind=LaneKind.RETRY, tier="high")
        live.lease(number, *fresh, ask_retry(want("t", 0, 25, attempt=1)), later)
    assert live.why("t")["cap_total"] > 5_000
    assert not {"task_weight", "app_weight"} & live.why("t").keys()
