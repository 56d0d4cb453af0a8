"""Single lanes in a pool: what they leave to others, and what they are charged."""

from collections import Counter
from itertools import count

import pytest

from dispatcher.wire.lease import GivenBack, Status
from tests.contract.law_service import LawService
from tests.contract.ledger_worlds import (
    LawWorld,
    ask,
    ask_own,
    given_back,
    own_lane,
    statuses,
    want,
)


def worked(world: LawWorld, rate: int, *tasks: str) -> LawService:
    """A service with a capacity, whose one worker holds the lanes of these tasks and asks ten times a second."""
    service = LawService(world, ask_targets=400)
    service.set_cap("total", rate)
    service.join("w", 100, tasks)
    return service


def test_the_credit_that_a_paused_task_leaves_is_the_others_at_once(world: LawWorld) -> None:
    world.set_capacity(1_000)
    for task in ("high", "low"):
        world.add(task, task)
    waiting = ask(own_lane("high"), demand=1_000)
    world.lease(1, waiting)
    world.advance(250)
    world.lease(2, waiting)
    world.change("high", "paused", "1")
    answer = world.lease(3, waiting, ask_own("low", 0, 400))
    assert dict(statuses(answer, 1))[Status.GRANTED] >= 200


def test_copies_of_an_ended_task_keep_no_capacity_from_others(world: LawWorld) -> None:
    service = worked(world, 1_000, "high", "low")
    for task in ("high", "low"):
        service.add(task, task)
    service.run(1_000)
    world.end("high")
    service.run(11_000)
    granted = service.sums(2_000, 12_000)
    assert not granted["high"]
    assert granted["low"] == pytest.approx(10_000, rel=0.02)


def test_a_lane_that_comes_back_is_owed_nothing_for_its_absence(world: LawWorld) -> None:
    """It left ahead of its tier, which is remembered for a minute, and has long been behind it by then."""
    service = worked(world, 2_000, "stays")
    service.add("stays")
    service.add("leaves", weight=500)
    large, calls = ask_own("leaves", 0, 1, size=500), count(1)
    while world.statuses(next(calls), large, worker="x") != [(Status.GRANTED, 1)]:
        service.run(100)
    service.run(20_000)
    service.holds["w"] = ["leaves", "stays"]
    since = service.run(300)
    assert since["leaves"] <= since.total() / 3, "no more than its part by weight"


def test_a_lane_that_gives_its_credit_back_has_not_lost_its_turn(world: LawWorld) -> None:
    """Its worker's channel had no room for the moment. One envelope puts so light a lane two seconds ahead."""
    world.set_capacity(2_000)
    world.add("light", weight=5)
    world.add("heavy")
    rounds = count(1)

    def until_granted(*given_back: GivenBack) -> tuple[int, int]:
        """The number of the call and how many there were."""
        for calls, number in enumerate(rounds, 1):
            world.advance(100)
            asks = ask_own("light", 0, 1, size=20), ask_own("heavy", 400 * number, 400)
            answer = world.lease(number, *asks, given_back=list(given_back) if calls == 1 else [])
            if statuses(answer) == [(Status.GRANTED, 1)]:
                return number, calls
        raise AssertionError

    number, _ = until_granted()
    _, calls = until_granted(given_back("light", 0, 1, f"w.{number}", size=20))
    assert calls <= 3


def test_a_task_that_comes_late_has_its_part_of_its_apps_cap_at_once(world: LawWorld) -> None:
    """Though the app is far behind in the total, which has room for all."""
    service = worked(world, 5_000, "early", "another")
    service.set_cap("app/shop", 1_000)
    service.add("another", app="other")
    for task in ("early", "late"):
        service.add(task)
    service.run(3_000)
    service.holds["w"] = ["early", "late", "another"]
    granted = service.run(500)
    assert granted["late"] >= 0.45 * (granted["early"] + granted["late"])


def test_where_apps_share_a_lane_of_many_apps_gets_what_one_app_gets(world: LawWorld) -> None:
    service = worked(world, 1_000, "own", "one of many")
    world.set_global("sharing", "apps")
    service.add("own", "low")
    service.add("one of many", "low", shared=True)
    granted = service.run(5_000)
    assert 0.45 <= granted["own"] / granted.total() <= 0.55


def test_where_apps_share_an_app_owes_nothing_for_tasks_that_have_gone(world: LawWorld) -> None:
    """Their workers died, or had nothing more of them."""
    service = worked(world, 1_000, "a", "b")
    world.set_global("sharing", "apps")
    service.add("a")
    service.add("b", app="other")
    for number in range(1, 21):
        world.add(f"gone{number}")
        world.lease(number, ask_own(f"gone{number}", 0, 1), worker="x")
        world.advance(500)
    granted = service.run(5_000)
    assert 0.45 <= granted["a"] / granted.total() <= 0.55


def test_a_worker_with_nothing_left_of_a_lane_hides_nothing_that_another_has_of_it(world: LawWorld) -> None:
    """Its call comes between the others', and what it says of the lane is the last that was said."""
    world.set_capacity(1_000)
    for task in ("high", "low"):
        world.add(task, task)
    granted = Counter({"high": 0, "low": 0})
    for number in range(1, 31):
        world.advance(100)
        world.lease(number, ask(own_lane("high"), demand=1), worker="almost empty")
        for task in ("low", "high"):
            asked = ask(own_lane(task), want(task, granted[task], 400), demand=1_000)
            pieces = world.statuses(number, asked, worker=task)
            granted[task] += dict(pieces).get(Status.GRANTED, 0)
    assert granted["high"] >= 0.8 * granted.total()
