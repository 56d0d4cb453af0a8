"""Lanes with backlog that nobody holds keep their place, and give their tier its part."""

from collections import Counter
from random import Random

import pytest

from dispatcher.wire.lease import Status
from lab.laws import jain
from tests.contract.ledger_crowd import Backlog, add_tasks
from tests.contract.ledger_worlds import LawWorld, ask, ask_own, in_process_worlds, own_lane, request, want

ANNOUNCE_MS = 1_000
WAITING_MS = 3_000
DEMAND_MS = 300


class Rotation:
    """One worker that holds `hold` of the lanes for hold_ms, those furthest behind first, and calls every period_ms.
    The demand of the others is announced every second, and at once for those that were let go of."""

    def __init__(
        self,
        world: LawWorld,
        tasks: list[str],
        *,
        hold: int,
        hold_ms: int,
        size: int,
        period_ms: int = 100,
        worker: str = "w",
    ) -> None:
        self.world, self.tasks, self.hold, self.hold_ms, self.size = world, tasks, hold, hold_ms, size
        self.period_ms, self.worker = period_ms, worker
        self.granted: Counter[str] = Counter()
        self._next: Counter[str] = Counter()
        self._number = 0
        self._now_ms = self._rotate_ms = 0
        self._held: list[str] = []
        self._announced_ms: dict[str, int] = {}

    def run(self, for_ms: int) -> None:
        until_ms = self._now_ms + for_ms
        while self._now_ms < until_ms:
            self.step(self._now_ms)
            self.world.advance(self.period_ms)
            self._now_ms += self.period_ms

    def step(self, now_ms: int) -> None:
        """One call, and before it a new working set if it is time for one."""
        self._now_ms = now_ms
        if now_ms >= self._rotate_ms:
            self._rotate_ms = now_ms + self.hold_ms
            self._rotate()
        self._call()

    def _rotate(self) -> None:
        for task in self._held:
            self._announced_ms[task] = -ANNOUNCE_MS
        behind = sorted(self.tasks, key=lambda task: (self.granted[task], self.tasks.index(task)))
        self._held = behind[: self.hold]

    def _call(self) -> None:
        held = set(self._held)
        left_out = [task for task in self.tasks if task not in held]
        due = [task for task in left_out if self._announced_ms.get(task, -ANNOUNCE_MS) + ANNOUNCE_MS <= self._now_ms]
        self._announced_ms.update(dict.fromkeys(due, self._now_ms))
        self._number += 1
        asks = [
            ask(own_lane(task), want(task, self._next[task], 10, size=self.size), demand=500) for task in self._held
        ]
        asks += [ask(own_lane(task), demand=1_000, waiting=True) for task in due]
        asked = request(self._number, *asks, demand_ms=DEMAND_MS, waiting_ms=WAITING_MS, worker=self.worker)
        answer = self.world.ledger.lease(asked)
        for task, wants in zip(self._held, answer.lanes, strict=False):
            count = sum(piece.count for piece in wants[0] if piece.status == Status.GRANTED)
            self._next[task] += count
            self.granted[task] += count * self.size


CAPACITY = 2_000


def announce(world: LawWorld, task: str, number: int) -> None:
    """Announce the demand of a lane that nobody holds, in a call with this number."""
    waits = ask(own_lane(task), demand=1_000, waiting=True)
    world.lease(number, waits, worker="watcher", waiting_ms=WAITING_MS)


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
    crowd = Backlog(world, held={"a": tasks[:1], "b": []}, period_ms={"a": 100, "b": 100})
    for second in range(1, 6):
        announce(world, "high1", second)
        crowd.run_until(1_000 * second)
    crowd.hold({"a": tasks[:1], "b": tasks[1:]})
    crowd.run_until(9_000)
    caught_up = crowd.sums(5_000, 9_000)
    assert caught_up["high1"] >= 0.9 * caught_up.total()
    crowd.run_until(20_000)
    granted = crowd.sums(0, 20_000)
    assert granted["high0"] == pytest.approx(granted["high1"], rel=0.05)


def test_a_lane_that_is_held_and_does_not_draw_is_owed_a_window_only(world: LawWorld) -> None:
    tasks = add_tasks(world, {"high": 2})["high"]
    world.set_capacity(CAPACITY)
    crowd = Backlog(world, held={"a": tasks[:1], "b": []}, period_ms={"a": 100, "b": 100})
    for number in range(1, 26):
        world.lease(number, ask(own_lane("high1"), demand=500), worker="idler")
        crowd.run_until(200 * number)
    crowd.hold({"a": tasks[:1], "b": tasks[1:]})
    crowd.run_until(20_000)
    after = crowd.sums(6_000, 20_000)
    assert after["high0"] == pytest.approx(after["high1"], rel=0.05)


def test_what_waits_gives_its_tier_its_part(world: LawWorld) -> None:
    """The high tier's bucket is filled for a lane that nobody holds yet: its first call is granted its share."""
    tasks = add_tasks(world, {"high": 1, "low": 1})
    world.set_capacity(CAPACITY)
    crowd = Backlog(world, held={"a": tasks["low"]}, period_ms={"a": 100})
    for second in range(1, 4):
        announce(world, "high0", second)
        crowd.run_until(1_000 * second)
    granted = world.statuses(1, ask_own("high0", 0, 1_000), worker="b")[0]
    assert granted[0] == Status.GRANTED
    assert granted[1] >= 0.9 * CAPACITY / 4 * 6 / 7


def test_waiting_demand_is_good_for_a_while_only(world: LawWorld) -> None:
    tasks = add_tasks(world, {"high": 1, "low": 1})
    world.set_capacity(CAPACITY)
    announce(world, "high0", 1)
    crowd = Backlog(world, held={"a": tasks["low"]}, period_ms={"a": 100})
    crowd.run_until(6_000)
    granted = world.statuses(1, ask_own("high0", 0, 1_000), worker="b")[0]
    assert granted[1] <= CAPACITY / 4 * 0.3
