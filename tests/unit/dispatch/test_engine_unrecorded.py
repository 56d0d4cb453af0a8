"""A worker that Pulsar cannot be reached from says which outcomes are not recorded, and nobody sends those again."""

import pytest

from backends.redis.workers import Workers
from dispatcher.model.errors import InvalidInput
from dispatcher.model.view import Unrecorded
from dispatcher.wire.lease import SPARED_MS
from tests.epoch_marks import read_marks
from tests.unit.engine_world import EngineWorld, Worker

CUT_OFF_S = 2 * SPARED_MS / 1000
LONGEST_CLAIM_MS = 13_000


def unrecorded(worker: Worker) -> Unrecorded | None:
    """As its heartbeat says."""
    beats = {beat.id: beat for beat in Workers(worker.world.view).workers()}
    return beats[worker.name].unrecorded


@pytest.fixture
def world() -> EngineWorld:
    world = EngineWorld(capacity=1_000)
    world.beating = True
    return world


def cut_off_while_sending(world: EngineWorld) -> tuple[Worker, Worker]:
    """Two workers that send a task, the first of which Pulsar cannot be reached from any more."""
    first, second = world.worker(), world.worker()
    world.add_task("t", 20_000, chunk=10)
    world.run(within_s=5.0)
    first.cut_off()
    return first, second


def test_what_a_worker_sent_that_is_cut_off_from_pulsar_only_is_sent_by_nobody_else(world: EngineWorld) -> None:
    first, second = cut_off_while_sending(world)
    world.run(within_s=CUT_OFF_S)
    assert not world.finished("t")
    assert unrecorded(first) is not None
    assert unrecorded(second) is None
    first.reconnect()
    world.sent_once("t", 20_000)
    world.run(within_s=2.0)
    assert unrecorded(first) is None


def test_the_rest_of_a_task_goes_on_while_the_view_holds_the_claims_of_what_is_not_recorded(world: EngineWorld) -> None:
    cut_off_while_sending(world)
    world.run(lambda: len(world.calls) == 20_000, within_s=60.0)


def test_a_worker_says_since_when_and_of_which_tasks_outcomes_are_not_recorded(world: EngineWorld) -> None:
    worker = world.worker()
    worker.outcomes.cut = True
    began_ms = world.clock.wall_ms()
    world.add_task("t", 20, chunk=10)
    world.run(within_s=4.0)
    assert unrecorded(worker) is None, "a record may take a while"
    world.run(within_s=30.0)
    message = unrecorded(worker)
    assert message is not None
    assert (message.targets, message.tasks) == (20, ["t"])
    assert began_ms <= message.since_ms <= began_ms + 2_000


def test_a_record_that_the_broker_refuses_for_ever_is_not_waited_for(world: EngineWorld) -> None:
    worker = world.worker()
    worker.outcomes.publish = lambda _task, _record, done: done(InvalidInput("The message is too big."))  # type: ignore[method-assign,assignment]
    world.add_task("t", 20, chunk=10)
    world.run(within_s=30.0)
    assert worker.engine.stats.stored_again
    assert unrecorded(worker) is None


def test_a_worker_that_stops_gives_up_what_it_has_not_recorded(world: EngineWorld) -> None:
    worker = world.worker()
    worker.outcomes.cut = True
    world.add_task("t", 20, chunk=10)
    world.run(within_s=30.0)
    assert unrecorded(worker) is not None
    worker.heart.beat("stopped")
    assert unrecorded(worker) is None


def empty_redis(world: EngineWorld) -> None:
    """Another view is made from the topics; it waits for the longest claim that it knows of."""
    world.view.wipe()
    world.begin_view("again", LONGEST_CLAIM_MS)
    world.find_ledger()
    read_marks(world, "again")


def test_what_a_live_worker_has_not_recorded_is_not_granted_by_a_view_that_begins_meanwhile(world: EngineWorld) -> None:
    """Its claims were those of the view before, and the outcome topic cannot be written for longer than they last."""
    first, _ = cut_off_while_sending(world)
    world.run(within_s=2.0)
    empty_redis(world)
    world.run(within_s=CUT_OFF_S)
    assert not world.finished("t")
    assert set(world.calls.values()) == {1}
    first.reconnect()
    world.sent_once("t", 20_000)


def test_other_tasks_are_sent_by_that_view(world: EngineWorld) -> None:
    first, _ = world.worker(), world.worker()
    world.add_task("t", 2_000, chunk=10)
    world.run(within_s=1.0)
    first.cut_off()
    world.run(within_s=2.0)
    empty_redis(world)
    world.add_task("u", 2_000, chunk=10)
    world.run(lambda: sum(target.startswith("u:") for target, _ in world.calls) == 2_000, within_s=30.0)
    assert set(world.calls.values()) == {1}


@pytest.mark.parametrize("emptied", [False, True], ids=["in the same view", "in a view that begins meanwhile"])
def test_what_a_cut_off_worker_held_is_sent_by_another_once_its_heart_stops(world: EngineWorld, emptied: bool) -> None:
    first, _ = cut_off_while_sending(world)
    world.run(within_s=2.0)
    if emptied:
        empty_redis(world)
    world.run(within_s=CUT_OFF_S)
    first.die()
    world.run_out("t", within_s=60.0)
    assert world.counts("t") == {"sent": 20_000}
    assert max(world.calls.values()) == 2
