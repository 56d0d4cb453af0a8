"""A task whose message the provider refuses for everybody is stopped with the reason, unless somebody got it."""

import queue

import pytest

from consumers.upkeep.task_stops import GIVE_UP_S, TaskStops
from dispatcher.channels.guards.trouble import FIRST_ANSWERS, MessageRefusal
from dispatcher.wire.control import ControlChange, decode_control
from dispatcher.wire.outcome import Outcome
from tests.contract.away_log import AwayLog
from tests.contract.ledger_worlds import LawWorld, run
from tests.contract.registry_records import task_of
from tests.virtual_clock import VirtualClock

FAILED, SENT = int(Outcome.FAILED), int(Outcome.SENT)


class Stopper:
    """A worker's part, over a live task t of 1,000 targets."""

    def __init__(self, world: LawWorld) -> None:
        world.add("t")
        world.seal("t", 1_000)
        self.world, self.clock, self.log = world, VirtualClock(), AwayLog()
        inbox: queue.Queue[MessageRefusal] = queue.Queue()
        registry = world.registry
        self.stops = TaskStops(registry.tasks, registry.control, self.log, self.clock, inbox)
        inbox.put(MessageRefusal("t", "400 INVALID_ARGUMENT: bad key"))

    def round(self) -> list[str]:
        """Return the reasons in the topic."""
        self.stops.round()
        records = [decode_control(body) for body in self.log.records]
        return [record.value for record in records if isinstance(record, ControlChange) and record.field == "stopped"]

    def state(self) -> str:
        return task_of(self.world.registry, "t").state


@pytest.fixture
def stopper(world: LawWorld) -> Stopper:
    return Stopper(world)


def test_it_is_stopped_once_its_failures_are_counted(stopper: Stopper) -> None:
    assert stopper.round() == []
    stopper.world.record("t", run(0, FIRST_ANSWERS, FAILED))
    [reason] = stopper.round()
    assert reason.endswith("the first 100 answers: 400 INVALID_ARGUMENT: bad key")
    assert stopper.state() == "failed"
    assert len(stopper.round()) == 1


def test_it_goes_on_if_any_worker_had_a_success(stopper: Stopper) -> None:
    stopper.world.record("t", run(0, FIRST_ANSWERS, FAILED), run(FIRST_ANSWERS, 1, SENT))
    assert stopper.round() == []
    assert stopper.state() == "running"


def test_later_failures_do_not_stop_it(stopper: Stopper) -> None:
    assert stopper.round() == []
    stopper.clock.advance(GIVE_UP_S)
    assert stopper.round() == []
    stopper.world.record("t", run(0, FIRST_ANSWERS, FAILED))
    assert stopper.round() == []


def test_a_task_that_was_ended_is_left_alone(stopper: Stopper) -> None:
    stopper.world.change("t", "cancelled", "1")
    stopper.world.record("t", run(0, FIRST_ANSWERS, FAILED))
    assert stopper.round() == []


def test_while_the_control_topic_is_gone_it_is_tried_again(stopper: Stopper) -> None:
    stopper.world.record("t", run(0, FIRST_ANSWERS, FAILED))
    stopper.log.is_away = True
    assert stopper.round() == []
    assert stopper.state() == "running"
    stopper.log.is_away = False
    assert len(stopper.round()) == 1
    assert stopper.state() == "failed"
