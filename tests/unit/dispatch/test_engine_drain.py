"""The graceful end: nothing new is sent, what is under way is settled, the rest is given back."""

import threading

from dispatcher.engine.events import Drain
from tests.unit.engine_world import EngineWorld


def test_a_drained_worker_leaves_nothing_claimed_and_nothing_half_done(world: EngineWorld) -> None:
    lane = world.add_task("t", 2_000)
    worker = world.worker(in_flight_batches=4)
    worker.courier.paused.add("null")
    world.run(within_s=0.3)
    worker.drain()
    world.run(within_s=0.3)
    assert not worker.engine.drained
    worker.courier.answer()
    world.run(lambda: worker.engine.drained, within_s=1.0)
    assert worker.lanes.attached == []
    assert not world.held()
    assert len(world.provider_calls) == 200
    assert len(world.broker.open(lane)) == 1_800
    world.worker()
    assert world.run_out("t") < 1.0, "no claim had to end first"
    assert max(world.calls.values()) == 1


def test_a_drain_ends_at_its_deadline_and_others_finish(world: EngineWorld) -> None:
    world.add_task("t", 200)
    worker = world.worker()
    worker.courier.paused.add("null")
    world.run(within_s=0.3)
    worker.drain(within_s=5.0)
    world.run(lambda: worker.engine.drained, within_s=6.0)
    assert worker.lanes.attached == []
    world.worker()
    world.sent_once("t", 200)


def test_an_idle_worker_drains_at_once(world: EngineWorld) -> None:
    worker = world.worker()
    world.run(within_s=1.0)
    worker.drain()
    worker.work()
    assert worker.engine.drained


def test_a_drain_waits_for_the_answer_of_a_call_under_way(world: EngineWorld) -> None:
    world.add_task("t", 100)
    worker = world.worker()
    worker.leases.lose = 1
    worker.work()
    worker.drain()
    world.run(lambda: worker.engine.drained, within_s=3.0)
    assert not world.held()
    assert world.provider_calls == []


def test_run_returns_when_drained_and_when_stopped(world: EngineWorld) -> None:
    world.add_task("t", 100)
    worker = world.worker()
    stop = threading.Event()
    worker.inbox.put(Drain(5.0))
    worker.engine.run(stop)
    assert worker.engine.drained
    other = world.worker()
    stop.set()
    other.engine.run(stop)
    assert not other.engine.drained
