"""A worker whose clock stopped: nothing is sent by a use-by that is later than the ledger thinks."""

import pytest

from tests.unit.engine_world import EngineWorld, Worker
from tests.virtual_clock import VirtualClock

TARGETS = 20_000


class NappingClock:
    """A clock that can be stopped."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._behind_s = 0.0

    def wall_ms(self) -> int:
        return self._clock.wall_ms()

    def monotonic_s(self) -> float:
        return self._clock.monotonic_s() - self._behind_s

    def nap(self, seconds: float) -> None:
        """Let time pass without this clock."""
        self._clock.advance(seconds)
        self._behind_s += seconds


def busy(world: EngineWorld) -> tuple[Worker, NappingClock]:
    """A worker with credit, and with batches that its channel has not begun with."""
    clock = NappingClock(world.clock)
    worker = world.worker("napping", clock=clock, in_flight_batches=4)
    worker.courier.paused.add("null")
    world.add_task("t", TARGETS, chunk=10)
    world.run(within_s=0.5)
    assert worker.engine.stats.credit_targets
    assert worker.courier.waiting
    return worker, clock


@pytest.mark.parametrize("still_s", [1.0, 14.0, 3_600.0])
def test_what_was_granted_before_is_given_back_and_not_sent(still_s: float) -> None:
    """Meanwhile its claims may have ended, and another worker have sent it all."""
    world = EngineWorld(capacity=2_000)
    worker, clock = busy(world)
    before = worker.courier.waiting
    clock.nap(still_s)
    world.broker.take_away(world.topics.own_lane("t"))
    world.worker("other")
    world.run(within_s=0.5)
    assert worker.engine.stats.clock_stops == 1
    worker.courier.paused.clear()
    worker.courier.answer(len(before))
    assert not worker.courier.calls
    world.sent_once("t", TARGETS)


def test_a_worker_that_stood_still_before_its_first_call_has_nothing_to_give_back(world: EngineWorld) -> None:
    clock = NappingClock(world.clock)
    worker = world.worker("napping", clock=clock)
    clock.nap(60.0)
    world.add_task("t", TARGETS, chunk=10)
    world.run_out("t")
    assert worker.engine.stats.given_back == 0


@pytest.mark.parametrize("lost", [1, 3])
def test_an_answer_that_is_given_again_is_no_sign_that_the_clock_stood_still(lost: int) -> None:
    """It says when the call was carried out, not when it was asked for again."""
    world = EngineWorld(capacity=1_000)
    worker = world.worker()
    world.add_task("t", TARGETS, chunk=10)
    for _ in range(5):
        world.run(within_s=0.3)
        worker.leases.lose = lost
    world.run_out("t")
    assert worker.engine.stats.clock_stops == 0
    assert set(world.calls.values()) == {1}
