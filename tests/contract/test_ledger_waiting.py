"""Lanes with backlog that nobody holds keep their place, and give their tier its part."""

from random import Random

import pytest

from dispatcher.wire.lease import LaneAsk, Status
from tests.contract.ledger_crowd import Backlog, add_tasks, jain
from tests.contract.ledger_rotation import Rotation
from tests.contract.ledger_worlds import LawWorld, ask, ask_own, in_process_worlds, own_lane, request

CAPACITY = 2_000


@pytest.mark.parametrize("cap", ["capacity", "cap:channel:null"])
def test_a_thousand_lanes_share_while_a_hundred_are_held(cap: str) -> None:
    """At 2,000 targets/s in envelopes of 20, for a minute: six envelopes each, twice held."""
    world = in_process_worlds()()
    tasks = add_tasks(world, {"high": 1_000})["high"]
    world.set_global(cap, str(CAPACITY))
    rotation = Rotation(world, tasks, hold=100, hold_ms=3_000, size=20, period_ms=200)
    rotation.run(60_000)
    assert rotation.granted.total() >= 0.98 * 60 * CAPACITY
    assert jain([rotation.granted[task] for task in tasks]) >= 0.95


def test_lanes_share_while_a_few_of_them_are_held(world: LawWorld) -> None:
    tasks = add_tasks(world, {"high": 60})["high"]
    world.set_capacity(CAPACITY)
    rotation = Rotation(world, tasks, hold=10, hold_ms=1_000, size=20)
    rotation.run(24_000)
    assert rotation.granted.total() >= 0.98 * 24 * CAPACITY
    assert jain([rotation.granted[task] for task in tasks]) >= 0.95


def test_calls_that_come_late_cost_no_lane_its_turn() -> None:
    """When two workers are late, a bucket is half full and the workers ahead draw from it. No worker may lose its claim
    to its share by that."""
    world, chance = in_process_worlds()(), Random(6)
    tasks = add_tasks(world, {"high": 600})["high"]
    world.set_capacity(CAPACITY)
    halves = {"a": tasks[::2], "b": tasks[1::2]}
    workers = [Rotation(world, half, hold=200, hold_ms=2_000, size=20, worker=name) for name, half in halves.items()]
    due_ms = dict.fromkeys(workers, 0)
    for now_ms in range(0, 30_000, 10):
        for worker in workers:
            if due_ms[worker] <= now_ms:
                worker.step(now_ms)
                due_ms[worker] = now_ms + chance.randint(100, 250)
        world.advance(10)
    granted = workers[0].granted + workers[1].granted
    assert granted.total() >= 0.97 * 30 * CAPACITY
    assert jain([granted[task] for task in tasks]) >= 0.95


def test_the_time_in_which_nobody_held_a_lane_is_owed(world: LawWorld) -> None:
    """One that waited for 5 s beside one that was held all along gets what it missed before that one gets more."""
    tasks = add_tasks(world, {"high": 2})["high"]
    world.set_capacity(CAPACITY)
    waits = Waiting(world, own_lane("high1"))
    crowd = Backlog(world, {"a": tasks[:1], "b": []}, {"a": 100, "b": 100})
    for until_ms in range(1_000, 6_000, 1_000):
        waits.announce()
        crowd.run_until(until_ms)
    crowd.held = {"a": tasks[:1], "b": tasks[1:]}
    crowd.run_until(9_000)
    caught_up = crowd.sums(5_000, 9_000)
    assert caught_up["high1"] >= 0.9 * caught_up.total()
    crowd.run_until(20_000)
    granted = crowd.sums(0, 20_000)
    assert granted["high0"] == pytest.approx(granted["high1"], rel=0.05)


def test_a_lane_that_is_held_and_does_not_draw_is_owed_a_window_only(world: LawWorld) -> None:
    tasks = add_tasks(world, {"high": 2})["high"]
    world.set_capacity(CAPACITY)
    crowd = Backlog(world, {"a": tasks[:1], "b": []}, {"a": 100, "b": 100})
    for number in range(1, 26):
        world.lease(number, ask(own_lane("high1"), demand=500), worker="idler")
        crowd.run_until(200 * number)
    crowd.held = {"a": tasks[:1], "b": tasks[1:]}
    crowd.run_until(12_000)
    after = crowd.sums(6_000, 12_000)
    assert after["high0"] == pytest.approx(after["high1"], rel=0.05)


def test_what_waits_gives_its_tier_its_part(world: LawWorld) -> None:
    """The high tier's bucket is filled for a lane that nobody holds yet: its first call is granted its share."""
    tasks = add_tasks(world, {"high": 1, "low": 1})
    world.set_capacity(CAPACITY)
    waits = Waiting(world, own_lane("high0"))
    crowd = Backlog(world, {"a": tasks["low"]}, {"a": 100})
    for until_ms in (1_000, 2_000, 3_000):
        waits.announce()
        crowd.run_until(until_ms)
    granted = world.statuses(1, ask_own("high0", 0, 1_000), worker="b")[0]
    assert granted[0] == Status.GRANTED
    assert granted[1] >= 0.9 * CAPACITY / 4 * 6 / 7


def test_waiting_demand_is_good_for_a_while_only(world: LawWorld) -> None:
    tasks = add_tasks(world, {"high": 1, "low": 1})
    world.set_capacity(CAPACITY)
    waits = Waiting(world, own_lane("high0"))
    waits.announce()
    crowd = Backlog(world, {"a": tasks["low"]}, {"a": 100})
    crowd.run_until(6_000)
    granted = world.statuses(1, ask_own("high0", 0, 1_000), worker="b")[0]
    assert granted[1] <= CAPACITY / 4 * 0.3


class Waiting:
    """Announces the demand of a lane that nobody holds."""

    def __init__(self, world: LawWorld, lane: str) -> None:
        self._world, self._lane, self._number = world, lane, 0

    def announce(self) -> None:
        self._number += 1
        asked: LaneAsk = ask(self._lane, demand=1_000, waiting=True)
        self._world.ledger.lease(request(self._number, asked, worker="watcher", waiting_ms=3_000))
