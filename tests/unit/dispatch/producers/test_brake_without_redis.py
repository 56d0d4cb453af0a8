"""Changes while Redis is gone: they are stored in the control topic, and take effect when Redis is back."""

import pytest

from dispatcher.model.errors import NotFound, TaskEnded, Unreachable
from dispatcher.model.flow_pause import FlowPause, PauseKind
from dispatcher.model.pools import Cap
from dispatcher.model.service_settings import Setting
from dispatcher.model.task import PushTask
from dispatcher.wire.control import ControlChange
from dispatcher.wire.topics import Topics
from producers.control.change import change_service
from producers.control.controls import Cancelled, Controls
from producers.control.known_tasks import KnownTasks
from producers.control.steering import BulkChanges, BulkResult
from producers.control.task_changes import Changes, TaskFilter
from producers.submit.report import Watchers
from producers.submit.submit import submit
from tests.unit.dispatch.desk.desk_world import DeskWorld
from tests.unit.dispatch.producers.fake_service import FakeService

BACK = "takes effect when Redis is back"
PAUSE, CANCEL = Changes(paused=True), Changes(cancelled=True)


def world_of(*tasks: str, tier: str = "high") -> FakeService:
    """Return a service with these tasks that has just lost its Redis."""
    world = FakeService(ready=True)
    for task in tasks:
        submit(
            world.services(), PushTask(id=task, app="shop", tier=tier, channel="log", message="x"), ["a"], Watchers()
        )
    world.redis.gone = True
    return world


def fields(world: FakeService) -> list[tuple[str, str, str]]:
    return [(record.task, record.field, record.value) for record in world.records_of(ControlChange)]


def bulk(world: FakeService) -> BulkChanges:
    services = world.services()
    return BulkChanges(lambda: services, services.registry.tasks, KnownTasks(services.registry.tasks, world.epochs))


def change(world: FakeService, changes: Changes, *tasks: str) -> BulkResult:
    steering = bulk(world)
    return steering.carry_out(steering.plan(TaskFilter(ids=tasks), changes))


def state_after(world: FakeService, task: str = "a") -> str:
    """Return the task's state when Redis is back and a worker has folded the control topic."""
    world.recover()
    world.fold()
    view = world.registry.tasks.task(task)
    assert view is not None
    return view.state


@pytest.mark.parametrize(
    ("changes", "stored", "state"),
    [
        (PAUSE, ("paused", "1"), "paused"),
        (Changes(paused=False), ("paused", "0"), "running"),
        (CANCEL, ("cancelled", "1"), "cancelled"),
        (Changes(stopped="wrong text"), ("stopped", "wrong text"), "failed"),
        (Changes(weight=2), ("weight", "2000"), "running"),
    ],
)
def test_a_change_by_id_is_stored_and_takes_effect_when_redis_is_back(
    changes: Changes, stored: tuple[str, str], state: str
) -> None:
    world = world_of("a", "b")
    result = change(world, changes, "a")
    assert (result.changed, dict(result.failed)) == (("a",), {})
    assert BACK in result.lacks_redis
    assert fields(world) == [("a", *stored)]
    assert state_after(world) == state


def test_a_handle_raises_nothing_and_logs_that_the_change_takes_effect_later(caplog: pytest.LogCaptureFixture) -> None:
    world = world_of("a")
    controls = Controls(world.services)
    controls.change("a", PAUSE)
    edit = controls.edit("a", "new")
    assert (edit.number, edit.latest) == (1, 1)
    assert BACK in edit.lacks_redis
    world.fail_at("in flight", Unreachable("Redis is gone."))
    assert controls.end("a", CANCEL) == Cancelled(0, 0, settled=False)
    assert [record.getMessage().count(BACK) for record in caplog.records] == [1, 1, 1]
    assert state_after(world) == "cancelled"


def test_a_small_task_leaves_its_shared_lane_without_redis() -> None:
    world = world_of("a", tier="low")
    assert change(world, PAUSE, "a").lanes == 1
    lane = Topics().own_lane("a")
    assert fields(world) == [("a", "lane", lane), ("a", "paused", "1")]
    assert lane in world.lanes


def test_an_unknown_id_changes_nothing() -> None:
    world = world_of("a")
    with pytest.raises(NotFound, match="There is no task b"):
        change(world, PAUSE, "a", "b")
    with pytest.raises(NotFound, match="There is no task b"):
        Controls(world.services).change("b", PAUSE)
    assert fields(world) == []


@pytest.mark.parametrize("state", ["completed", "cancelled"])
def test_an_ended_task_takes_no_change(state: str) -> None:
    world = world_of("a")
    world.finish("a", state)
    assert change(world, PAUSE, "a").failed == {"a": f"Task a is {state} and accepts no more changes."}
    with pytest.raises(TaskEnded):
        Controls(world.services).change("a", PAUSE)
    assert change(world, CANCEL, "a").unchanged == (state == "cancelled")
    assert fields(world) == []


def test_of_two_callers_the_later_record_counts() -> None:
    world = world_of("a")
    assert not change(world, Changes(paused=False), "a").failed
    assert not change(world, PAUSE, "a").failed
    assert state_after(world) == "paused"
    world = world_of("a")
    assert not change(world, CANCEL, "a").failed
    assert change(world, CANCEL, "a").unchanged == 1
    assert change(world, PAUSE, "a").failed


def test_a_restated_record_is_read_once() -> None:
    world = world_of("a")
    change(world, PAUSE, "a")
    world.log += world.restated()
    assert change(world, CANCEL, "a").changed == ("a",)


def test_a_lost_view_without_workers_is_no_obstacle() -> None:
    world = world_of("a")
    world.recover()
    world.view.wipe()
    assert change(world, PAUSE, "a").lacks_redis == ""
    assert fields(world) == [("a", "paused", "1")]


@pytest.mark.parametrize("chosen", [TaskFilter(app="shop"), TaskFilter(ids=("a",), tier="high")])
def test_a_filter_needs_redis_and_says_so(chosen: TaskFilter) -> None:
    world = world_of("a")
    with pytest.raises(Unreachable, match="cut off") as error:
        bulk(world).plan(chosen, PAUSE)
    assert error.value.next_step.endswith("Without it tasks are found by their ids only.")


def test_without_pulsar_nothing_is_stored_and_nobody_is_told_otherwise() -> None:
    world = world_of("a")
    world.fail_at("append ControlChange", Unreachable("Pulsar is gone."))
    assert dict(change(world, PAUSE, "a").failed) == {"a": "Pulsar is gone."}
    with pytest.raises(Unreachable):
        Controls(world.services).change("a", PAUSE)


def test_a_setting_of_the_service_is_stored_without_redis() -> None:
    world = world_of()
    assert BACK in change_service(world.services(), [Setting.of("channel_paused", given=True, name="fcm")]).lacks_redis
    world.recover()
    assert change_service(world.services(), [Setting.of("capacity", Cap(900))]).lacks_redis == ""


def test_the_last_entries_of_flows_are_read_from_the_control_topic() -> None:
    """A suspicion leaves doubts, which the entry after it keeps."""
    world, entry = world_of(), FlowPause(kind=PauseKind.SUSPECT, since_ms=10**12, reason="2: many dead")
    for one in (FlowPause(kind=PauseKind.HAND, since_ms=10**12), entry):
        change_service(world.services(), [Setting.of("flow_paused", one, "fcm/shop")])
    assert world.services().known.stored_flows() == {"fcm/shop": entry}


def test_entry_of_a_flow_keeps_doubts_while_the_view_is_rebuilt() -> None:
    """An entry without them would call the doubted targets dead."""
    world, entry = DeskWorld(), FlowPause(kind=PauseKind.SUSPECT, since_ms=10**12, reason="many dead")
    change_service(world.connection.services(), [Setting.of("flow_paused", entry, "fcm/shop")])
    world.service.view.command("DEL", world.service.view.keys.epoch, world.service.view.keys.globals)
    for change in (lambda s: s.pause_flow("fcm", "shop"), lambda s: s.resume_flow("fcm", "shop")):
        world.client.change_service(change)
        assert world.connection.flow_entries()["fcm/shop"].doubts(entry.since_ms)
