"""Every script leaves and answers in the Redis in memory what it does in a real one, whatever it is asked."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from dispatcher.wire.control import ControlRecord, TaskRecord
from dispatcher.wire.lease import GivenBack, LaneAsk, Status, Want
from dispatcher.wire.outcome import ClaimsEnded, CloseTask, Mixed, OutcomeRecord, Run
from tests.contract.law_service import check, randoms
from tests.contract.ledger_crowd import Backlog, add_tasks, assert_tallied
from tests.contract.ledger_worlds import (
    LawWorld,
    Worlds,
    ask,
    ask_retry,
    ask_shared,
    ask_side,
    back_of,
    each_piece,
    fold,
    in_process_worlds,
    mixed,
    outcomes,
    own_lane,
    request,
    run,
    task_record,
    want,
)
from tests.contract.memory_twins import contents_of
from tests.contract.registry_records import change, sealed, setting
from tests.records import finished

OWN, SHARED = ("t0", "t1", "t2"), ("s0", "s1")
TASKS = (*OWN, *SHARED)
CLAIMED = (Status.GRANTED, Status.CANCELLED, Status.EXPIRED)
START_MS = 1_700_000_000_000
CHOSEN_BY_THE_SERVER = (b":test-clock", b":feed")
"""Ends of keys that hold times of the server's own."""


def contents(world: Any) -> dict[bytes, Any]:
    found = contents_of(world.view.client, f"{world.view.keys.prefix}:*")
    epoch = found[world.view.keys.epoch.encode()][1]
    for of_the_server in (b"run_id", b"started_ms", b"waits_from_ms", b"address"):
        epoch.pop(of_the_server)
    return {key: value for key, value in found.items() if not key.endswith(CHOSEN_BY_THE_SERVER)}


class Twins(RuleBasedStateMachine):
    """Does the same over a real server and over one in memory, and compares every answer. Details come from a seeded
    source, for speed."""

    reference: Worlds
    worlds: Worlds

    def __init__(self) -> None:
        super().__init__()
        self.pair: tuple[LawWorld, LawWorld] = (self.reference(), self.worlds())
        self.numbers: Counter[str] = Counter()
        self.held: list[tuple[str, str, Want, int, int]] = []
        """Claims: name, lane, want, and first and number of the envelopes."""
        self.ended: set[str] = set()

    def apply(self, record: ControlRecord) -> None:
        for world in self.pair:
            world.apply(record)

    def fold(self, *records: OutcomeRecord, partition: int = 0) -> None:
        first, second = (fold(world, *records, partition=partition) for world in self.pair)
        assert first == second

    @initialize(rng=randoms, rate=st.sampled_from([0, 0, 50, 2_000, 1_000_000]))
    def tasks(self, rng: random.Random, rate: int) -> None:
        for task in TASKS:
            self.apply(_random_task(rng, task))
        self.apply(setting("capacity", str(rate)))
        if rng.random() < 0.5:
            self.apply(setting("cap:channel:null", rng.choice(["20", "1000", "300:9"])))
        if rng.random() < 0.3:
            self.apply(setting("cap:app:shop", rng.choice(["5", "700"])))

    @invariant()
    def hold_alike(self) -> None:
        memory, real = (contents(world) for world in self.pair)
        assert memory == real

    @rule(rng=randoms, worker=st.sampled_from("ab"))
    def lease(self, rng: random.Random, worker: str) -> None:
        repeated = self.numbers[worker] > 0 and rng.random() < 0.05
        self.numbers[worker] += not repeated
        asked = request(
            self.numbers[worker],
            *_random_asks(rng),
            worker=worker,
            given_back=self._random_returns(rng),
            claim_ms=rng.choice([1_500, 3_000]),
            lease_ms=rng.choice([300, 1_000]),
        )
        first, second = (world.ledger.lease(asked) for world in self.pair)
        assert first == second
        if repeated:
            return  # the answer is that of the call before, whatever is asked
        for lane, wanted, place, piece in each_piece(asked.lanes, first):
            if piece.status in CLAIMED:
                self.held.append((asked.claim, lane.lane, wanted, place, piece.count))

    def _random_returns(self, rng: random.Random) -> list[GivenBack]:
        if not self.held or rng.random() < 0.7:
            return []
        claim, lane, wanted, first, count = rng.choice(self.held)
        return [back_of(wanted, claim, lane, first, rng.randint(1, count))]

    @rule(rng=randoms, times=st.sampled_from([1, 1, 1, 2]))
    def record(self, rng: random.Random, times: int) -> None:
        if not self.held:
            return
        claim, _, wanted, first, count = rng.choice(self.held)
        some = rng.randint(1, count)
        start = first + rng.randint(0, count - some)
        more: dict[str, Any] = {"attempt": wanted.attempt, "size": wanted.size}
        parts: list[Run | Mixed] = [run(start, some, rng.choice([0, 0, 1, 4, 9]), writer=wanted.writer, **more)]
        if rng.random() < 0.4:
            parts = [
                mixed(at, [rng.choice([0, 9, 2]) for _ in range(wanted.size)], **more)
                for at in range(start, start + some)
            ]
        self.fold(*[outcomes(wanted.task, *parts, claim=claim)] * times)

    @rule(lost=st.booleans())
    def end_claims(self, lost: bool) -> None:
        first, second = (
            {partition: sorted(claims) for partition, claims in world.ledger.due_claims().items()}
            for world in self.pair
        )
        assert first == second
        for partition, claims in first.items():
            if not lost:
                self.fold(ClaimsEnded(1, claims), partition=partition)

    @rule(step_ms=st.sampled_from([1_500, 10_000]), passed=st.booleans())
    def lengthen_claims(self, step_ms: int, passed: bool) -> None:
        """passed: the clock was set forward by so much; otherwise somebody only thought so."""
        for world in self.pair:
            world.advance(step_ms if passed else 0)
            world.ledger.lengthen_claims(step_ms)

    @rule()
    def close_tasks(self) -> None:
        first, second = (sorted(world.ledger.closable()) for world in self.pair)
        assert first == second
        for task in first:
            self.fold(CloseTask(1, task.task, task.code, 5, task.reason))

    @rule(
        task=st.sampled_from(OWN),
        control=st.sampled_from(
            [
                *[("weight", "3000"), ("tier", "medium"), ("paused", "1"), ("paused", "0")],
                *[("cap", "200"), ("cap", "0"), ("cap", "50:7")],
            ]
        ),
    )
    def control(self, task: str, control: tuple[str, str]) -> None:
        self.apply(change(task, *control))

    @rule(task=st.sampled_from(SHARED))
    def leave_shared_lane(self, task: str) -> None:
        self.apply(change(task, "lane", own_lane(task)))

    @rule(task=st.sampled_from(TASKS), end=st.sampled_from([("cancelled", "1"), ("stopped", "a"), ("stopped", "b")]))
    def call_off(self, task: str, end: tuple[str, str]) -> None:
        self.apply(change(task, *end))

    @rule(task=st.sampled_from(TASKS), total=st.integers(50, 300), writers=st.sampled_from([["0"], ["0", "x"], ["x"]]))
    def seal(self, task: str, total: int, writers: list[str]) -> None:
        self.apply(sealed(task, total, writers))

    @rule(task=st.sampled_from(TASKS))
    def finish(self, task: str) -> None:
        self.ended.add(task)
        self.apply(finished(task))

    @rule(
        field=st.sampled_from(
            ["capacity", "cap:channel:null", "cap:app:shop", "cap:app:club", "cap:app_channel:shop/null"]
        ),
        value=st.sampled_from(["0", "40", "5000", "500:30", "3000:1"]),
    )
    def set_cap(self, field: str, value: str) -> None:
        self.apply(setting(field, value))

    @rule(
        change=st.sampled_from(
            [
                *[("channel_paused:null", "1"), ("channel_paused:null", "0"), ("channel_paused:log", "1")],
                *[("sharing", "apps"), ("sharing", "tasks"), ("app_weight:shop", "3000"), ("tiers", "1:5000:999")],
            ]
        )
    )
    def set_global(self, change: tuple[str, str]) -> None:
        self.apply(setting(*change))

    @rule(ms=st.sampled_from([1, 20, 100, 450, 2_000]))
    def wait(self, ms: int) -> None:
        for world in self.pair:
            world.advance(ms)

    @invariant()
    def look_alike(self) -> None:
        memory, real = self.pair
        assert memory.stats() == real.stats()
        found = real.look(TASKS)
        for task, look in memory.look(TASKS).items():
            assert look.claims == found[task].claims
            assert look.why == found[task].why
            if task not in self.ended:
                assert look.counts == found[task].counts
        assert memory.sides() == real.sides()
        for world in self.pair:
            assert_tallied(world)


def _random_task(rng: random.Random, task: str) -> TaskRecord:
    shared = task in SHARED
    return task_record(
        task,
        "low" if shared else rng.choice(["high", "medium", "low"]),
        shared=shared,
        weight=rng.choice([1_000, 500, 7_000, 1]),
        cap=0 if shared else rng.choice([0, 0, 100, 3]),
        hold_until_sealed=rng.random() < 0.1,
        expires_ms=rng.choice([0, 0, 0, START_MS + 5_000]),
        start_ms=rng.choice([0, 0, START_MS + 1_000]),
        app=rng.choice(["shop", "shop", "club"]),
        channel=rng.choice(["null", "null", "log"]),
        cap_burst=rng.choice([0, 2]),
    )


def _random_asks(rng: random.Random) -> list[LaneAsk]:
    asks = [
        ask(own_lane(task), *_random_wants(rng, [task]), demand=rng.choice([0, 10, 500]), waiting=rng.random() < 0.3)
        for task in rng.sample([*TASKS, "ghost"], rng.randint(0, 3))
    ]
    if rng.random() < 0.5:
        asks.append(ask_retry(*_random_wants(rng, TASKS), tier=rng.choice(["high", "low"])))
    if rng.random() < 0.5:
        asks.append(ask_shared(*_random_wants(rng, TASKS)))
    if rng.random() < 0.3:
        asks.append(ask_side(*_random_wants(rng, SHARED), app=rng.choice(["shop", "club"])))
    return asks


def _random_wants(rng: random.Random, tasks: list[str] | tuple[str, ...]) -> list[Want]:
    return [
        want(
            rng.choice(tasks),
            rng.randint(0, 60),
            rng.choice([1, 2, 5, 30, 90]),
            size=rng.choice([1, 1, 3]),
            attempt=rng.choice([0, 0, 0, 1, 2]),
            writer=rng.choice("0000x"),
        )
        for _ in range(rng.randint(0, 3))
    ]


def test_scripts_answer_and_leave_alike(real_worlds: Worlds, test_lua: Path) -> None:
    reference = {"reference": staticmethod(in_process_worlds(lua=test_lua))}
    check(type("TwinsHere", (Twins,), reference), real_worlds, examples=40, steps=40)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 1_000),
    envelope=st.sampled_from([1, 3, 40]),
    rate=st.sampled_from([60, 2_000, 2_001, 30_000]),
    weights=st.lists(st.sampled_from([1_000, 1_001, 333, 7_000, 1]), min_size=4, max_size=4),
)
def test_grants_are_the_same_one_by_one(
    real_worlds: Worlds, seed: int, envelope: int, rate: int, weights: list[int]
) -> None:
    """The same integers, grant by grant."""
    granted = []
    for world in (in_process_worlds()(), real_worlds()):
        tasks = [task for names in add_tasks(world, {"high": 3, "medium": 1, "low": 1}).values() for task in names]
        for task, weight in zip(tasks, weights, strict=False):
            world.change(task, "weight", str(weight))
        world.change("high1", "cap", str(rate // 10))
        world.set_capacity(rate)
        crowd = Backlog(
            world,
            held={"a": tasks, "b": tasks[1:]},
            period_ms={"a": 90, "b": 20},
            size=envelope,
            ask_targets=rate // 4,
            seed=seed,
        )
        crowd.run_until(2_000)
        granted.append(crowd.doses)
    assert granted[0] == granted[1]
