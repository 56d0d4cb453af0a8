"""Laws 1, 2 and 6 in every pool: whichever cap binds, tiers and tasks share it by weight, and it is never exceeded."""

import pytest

from lab.laws import jain
from tests.contract.ledger_crowd import Backlog, add_tasks, assert_owned, assert_whole
from tests.contract.ledger_worlds import LawWorld

CAP = 2_000
WEIGHTS = {"high": 0.6, "medium": 0.3, "low": 0.1}
CAPS = ["capacity", "cap:channel:null", "cap:app:shop", "cap:app_channel:shop/null"]


@pytest.mark.parametrize("cap", CAPS)
@pytest.mark.parametrize("total", [0, 20_000, CAP])
def test_tiers_and_tasks_share_whichever_cap_binds(world: LawWorld, cap: str, total: int) -> None:
    """One worker holds all high lanes, the other the rest, and asks five times as often."""
    tasks = add_tasks(world, {"high": 3, "medium": 3, "low": 2})
    world.set_capacity(total)
    world.set_global(cap, str(CAP))
    rest = [*tasks["medium"], *tasks["low"]]
    crowd = Backlog(world, held={"a": tasks["high"], "b": rest}, period_ms={"a": 100, "b": 20})
    crowd.run_until(6_000)
    granted = crowd.sums(1_000, 6_000)
    assert crowd.shares(1_000, 6_000) == pytest.approx(WEIGHTS, abs=0.02)
    assert granted.total() >= 0.98 * 5 * CAP
    for tier, names in tasks.items():
        assert jain([granted[task] for task in names]) >= 0.99, tier
    assert_owned(world)
    assert_whole(world)


@pytest.mark.parametrize("cap", CAPS[1:])
@pytest.mark.parametrize("others", [{"high": 2}, {"low": 1}, {"high": 1, "medium": 3, "low": 2}])
def test_what_a_cap_holds_back_is_left_to_the_others(world: LawWorld, cap: str, others: dict[str, int]) -> None:
    """High tasks stand behind a cap of a twentieth of the capacity; the others use all of the rest, at once."""
    held_back = [f"capped{number}" for number in range(4)]
    for task in held_back:
        world.add(task)
    free = [task for names in add_tasks(world, others, app="club", channel="log").values() for task in names]
    world.set_capacity(CAP)
    world.set_global(cap, str(CAP // 20))
    crowd = Backlog(world, held={"a": [*held_back, *free], "b": [*held_back, *free]}, period_ms={"a": 100, "b": 100})
    crowd.run_until(6_000)
    granted = crowd.sums(1_000, 6_000)
    capped = sum(granted[task] for task in held_back)
    assert capped == pytest.approx(5 * CAP // 20, rel=0.02)
    assert granted.total() >= 0.98 * 5 * CAP
    assert jain([granted[task] for task in held_back]) >= 0.99


def test_two_caps_and_the_total_bind_at_once(world: LawWorld) -> None:
    """Each lane is held by the pool that binds it: those of a channel share its cap, the others share what is left."""
    lanes = {"null": ["null0", "null1", "null2"], "log": ["log0", "log1"], "http": ["http0", "http1", "http2"]}
    for channel, names in lanes.items():
        for task in names:
            world.add(task, channel=channel)
    world.set_capacity(CAP)
    world.set_global("cap:channel:null", "300")
    world.set_global("cap:channel:log", "500")
    every = [task for names in lanes.values() for task in names]
    crowd = Backlog(world, held={"a": every, "b": every[::-1]}, period_ms={"a": 100, "b": 70})
    crowd.run_until(11_000)
    granted = crowd.sums(1_000, 11_000)
    for channel, rate in {"null": 300, "log": 500, "http": 1_200}.items():
        assert sum(granted[task] for task in lanes[channel]) == pytest.approx(10 * rate, rel=0.03), channel
        assert jain([granted[task] for task in lanes[channel]]) >= 0.99, channel


def test_a_cap_that_is_lifted_or_set_shows_at_once(world: LawWorld) -> None:
    tasks = add_tasks(world, {"high": 2})["high"]
    world.set_global("cap:channel:null", "100")
    world.set_capacity(CAP)
    crowd = Backlog(world, held={"a": tasks}, period_ms={"a": 100})
    crowd.run_until(2_000)
    world.set_global("cap:channel:null", "0")
    crowd.run_until(8_000)
    assert crowd.sums(2_500, 8_000).total() >= 0.97 * 5.5 * CAP
    world.set_global("cap:channel:null", "100:10")
    crowd.run_until(10_000)
    assert crowd.sums(8_500, 10_000).total() == pytest.approx(150, abs=25)


def test_where_apps_share_an_app_of_many_tasks_gets_no_more_than_one_of_a_single_task(world: LawWorld) -> None:
    world.add("alone", app="shop")
    many = [f"many{number}" for number in range(50)]
    for task in many:
        world.add(task, app="club")
    world.change("many0", "weight", "5000")
    world.set_capacity(CAP)
    crowd = Backlog(world, held={"a": ["alone", *many[:30]], "b": many[20:]}, period_ms={"a": 100, "b": 60})
    crowd.run_until(4_000)
    by_task = crowd.sums(1_000, 4_000)
    assert by_task["alone"] / by_task.total() == pytest.approx(1 / 55, rel=0.1)
    world.set_global("sharing", "apps")
    crowd.run_until(10_000)
    by_app = crowd.sums(5_000, 10_000)
    assert by_app["alone"] / by_app.total() == pytest.approx(1 / 2, abs=0.02)
    assert by_app["many0"] / by_app["many1"] == pytest.approx(5, rel=0.15)
    assert jain([by_app[task] for task in many[1:]]) >= 0.98
    world.set_global("app_weight:club", "3000")
    crowd.run_until(16_000)
    weighed = crowd.sums(11_000, 16_000)
    assert weighed["alone"] / weighed.total() == pytest.approx(1 / 4, abs=0.02)
    assert weighed.total() >= 0.98 * 5 * CAP
    assert_owned(world)
    assert_whole(world)
