"""A lease call that the ledger cannot carry out: what is at fault is found, and everything else goes on."""

from collections.abc import Callable
from typing import Any

import pytest

from dispatcher.model.errors import FairlaneError, Unreachable
from dispatcher.wire.lease import GivenBack, LeaseAnswer, LeaseRequest, Want
from tests.unit.engine_world import EngineWorld, Worker

At = Callable[[Want | GivenBack], bool]


class FaultyLedger:
    """Fails for requests with something in them, as a script does that stumbles over its data."""

    def __init__(self, world: EngineWorld, fails_for: At) -> None:
        self._ledger = world.ledger
        self.fails_for = fails_for
        self.always = False
        self.failed = 0

    def lease(self, request: LeaseRequest) -> LeaseAnswer:
        content: list[Want | GivenBack] = [*(want for ask in request.lanes for want in ask.wants), *request.given_back]
        if self.always or any(self.fails_for(one) for one in content):
            self.failed += 1
            raise FairlaneError("Redis answered with an error: bit offset is out of range.")
        return self._ledger.lease(request)


def bad(one: Want | GivenBack) -> bool:
    return one.task.startswith("bad")


def faulty(world: EngineWorld, fails_for: At = bad, **settings: Any) -> tuple[Worker, FaultyLedger]:
    ledger = FaultyLedger(world, fails_for)
    return world.worker(ledger=ledger, **settings), ledger


def letters(world: EngineWorld) -> set[tuple[str, int]]:
    return {(letter.task, letter.sequence) for letter in world.dead_letters.letters}


def test_one_envelope_at_fault_is_set_apart_and_all_others_are_sent(world: EngineWorld) -> None:
    worker, _ = faulty(world, lambda one: isinstance(one, Want) and one.first <= 77 < one.first + one.count)
    world.add_task("t", 1_000, chunk=5)
    world.run_out("t")
    assert world.counts("t") == {"sent": 995, "failed": 5}
    assert letters(world) == {("t", 77)}
    (letter,) = world.dead_letters.letters
    assert "bit offset is out of range" in letter.reasons[0]
    assert letter.body
    assert set(world.calls.values()) == {1}
    stats = worker.engine.stats
    assert stats.held_envelopes == stats.buffered_targets == stats.unsettled_targets == 0


def test_many_at_fault_in_many_lanes_hold_up_no_other_task(world: EngineWorld) -> None:
    faulty(world)
    for number in range(20):
        world.add_task(f"good-{number}", 100, chunk=10)
        world.add_task(f"bad-{number}", 4)
    world.add_task("shared-good", 50, shared=True)
    lane = world.topics.shared_lane(0)
    world.publish("bad-in-shared", lane, 3)
    world.run_out("shared-good", *(f"good-{n}" for n in range(20)))
    expected = {(f"bad-{number}", sequence) for number in range(20) for sequence in range(4)}
    assert letters(world) == expected | {("bad-in-shared", sequence) for sequence in range(3)}
    assert set(world.calls.values()) == {1}


def test_returned_credit_at_fault_is_forgotten_and_other_credit_is_not(world: EngineWorld) -> None:
    worker, ledger = faulty(world, lambda one: isinstance(one, GivenBack) and one.task == "late", in_flight_batches=1)
    worker.courier.paused.add("null")
    world.add_task("early", 20)
    world.add_task("late", 20, chunk=2)
    world.run(lambda: worker.engine.stats.given_back_refused > 0)
    assert ledger.failed
    worker.go_on()
    world.run_out("early", "late")
    assert not world.dead_letters.letters
    assert set(world.calls.values()) == {1}


def test_where_every_call_fails_nothing_is_given_up(world: EngineWorld) -> None:
    """The ledger is at fault then, not what is asked of it."""
    worker, ledger = faulty(world, lambda one: False)
    world.add_task("t", 100)
    ledger.always = True
    world.run(within_s=30.0)
    assert ledger.failed < 60, "asked with growing pauses"
    ledger.always = False
    world.run_out("t")
    assert not world.dead_letters.letters
    assert set(world.calls.values()) == {1}
    assert worker.engine.stats.held_envelopes == 0


def test_a_ledger_that_goes_away_while_calls_are_halved_is_waited_for(world: EngineWorld) -> None:
    _, ledger = faulty(world)
    world.add_task("good", 100)
    world.add_task("bad", 10)
    lease, calls = ledger.lease, 0

    def flaky(request: LeaseRequest) -> LeaseAnswer:
        nonlocal calls
        calls += 1
        if calls % 3 == 0:
            raise Unreachable("Redis is gone.")
        return lease(request)

    ledger.lease = flaky  # type: ignore[method-assign]
    world.run_out("good")
    assert letters(world) == {("bad", sequence) for sequence in range(10)}


@pytest.mark.parametrize("steps", range(1, 12))
def test_a_worker_may_drain_at_any_time_while_calls_are_halved(world: EngineWorld, steps: int) -> None:
    worker, _ = faulty(world, lambda one: one.task == "bad" and one.first <= 7 < one.first + one.count)
    world.add_task("good", 100)
    world.add_task("bad", 30)
    for _ in range(steps):
        world.clock.advance(0.005)
        if not worker.inbox.empty():
            worker.engine.step(worker.inbox.get())
    worker.drain()
    world.run(lambda: worker.engine.drained, within_s=30.0)
    stats = worker.engine.stats
    assert stats.held_envelopes == stats.buffered_targets == 0
    assert not world.held()


def test_a_lane_may_be_let_go_of_while_its_envelopes_are_halved(world: EngineWorld) -> None:
    worker, _ = faulty(world)
    world.add_task("good", 100)
    lane = world.add_task("bad", 30)
    for _ in range(4):
        worker.engine.step(worker.inbox.get())
    info = world.lanes.pop(lane)
    worker.look()
    world.run(lambda: world.finished("good"))
    world.lanes[lane] = info
    worker.look()
    world.run(lambda: len(letters(world)) == 30)
    assert worker.engine.stats.held_envelopes == 0
