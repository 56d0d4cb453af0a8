"""Live controls: stored, then applied; refused where they could not be kept."""

from collections.abc import Callable

import pytest

from dispatcher.model.errors import InvalidInput, NotFound, TaskEnded
from dispatcher.model.task import PushTask
from dispatcher.model.view import InFlight
from dispatcher.wire.control import ControlChange
from producers.control.controls import Cancelled, Controls, Edit
from producers.control.task_changes import Changes
from producers.submit.report import Watchers
from producers.submit.submit import submit
from tests.unit.dispatch.producers.fake_service import LANE, Died, FakeService

Change = Callable[[Controls], object]
CANCEL = Changes(cancelled=True)
ALL: dict[str, Change] = {
    "pause": lambda controls: controls.change("t", Changes(paused=True)),
    "resume": lambda controls: controls.change("t", Changes(paused=False)),
    "set_weight": lambda controls: controls.change("t", Changes(weight=2.5)),
    "set_tier": lambda controls: controls.change("t", Changes(tier="medium")),
    "set_cap": lambda controls: controls.change("t", Changes(cap=100)),
}


def world_with(tier: str = "high") -> FakeService:
    world = FakeService()
    submit(world.services(), PushTask(id="t", app="a", tier=tier, channel="log", message="x"), ["a"], Watchers())
    return world


@pytest.fixture
def world() -> FakeService:
    """One with the task t."""
    return world_with()


@pytest.mark.parametrize(
    ("changes", "field", "value"),
    [
        (Changes(paused=True), "paused", "1"),
        (Changes(paused=False), "paused", "0"),
        (Changes(weight=2.5), "weight", "2500"),
        (Changes(tier="medium"), "tier", "medium"),
        (Changes(cap=100), "cap", "100"),
        (Changes(cap=0), "cap", "0"),
    ],
)
def test_a_change_is_stored_and_then_applied(world: FakeService, changes: Changes, field: str, value: str) -> None:
    Controls(world.services).change("t", changes)
    (record,) = world.records_of(ControlChange)
    assert (record.task, record.field, record.value) == ("t", field, value)
    assert world.steps[-2:] == ["append ControlChange", "apply ControlChange"]


def fields(world: FakeService) -> list[tuple[str, str]]:
    return [(record.field, record.value) for record in world.records_of(ControlChange)]


@pytest.mark.parametrize("change", [name for name in ALL if name != "resume"])
def test_a_task_in_a_shared_lane_leaves_it_and_its_own_lane_is_created_last(change: str) -> None:
    world = world_with("low")
    controls = Controls(world.services)
    ALL[change](controls)
    assert fields(world)[0] == ("lane", LANE)
    assert world.lanes[LANE] == []
    assert world.steps[-1] == "create", "a pause acts at once"
    ALL[change](controls)
    assert [name for name, _ in fields(world)].count("lane") == 1


@pytest.mark.parametrize("dies_at", ["append ControlChange", "apply ControlChange", "create"])
def test_a_client_that_dies_between_the_steps_leaves_nothing_that_a_second_one_cannot_finish(dies_at: str) -> None:
    world = world_with("low")
    world.fail_at(dies_at, Died())
    with pytest.raises(Died):
        Controls(world.services).change("t", Changes(paused=True))
    world.recover()
    Controls(world.services).change("t", Changes(paused=True))
    assert fields(world)[-1] == ("paused", "1")
    assert ("lane", LANE) in fields(world)


@pytest.mark.parametrize("change", [ALL["resume"], lambda one: one.end("t", CANCEL)], ids=["resume", "cancel"])
def test_what_needs_no_lane_of_its_own_gets_none(change: Change) -> None:
    world = world_with("low")
    change(Controls(world.services))
    assert [name for name, _ in fields(world)] in (["paused"], ["cancelled"])


def test_an_edit_is_checked_by_the_channel_like_a_submission() -> None:
    world = FakeService()
    task = PushTask(id="t", app="a", tier="high", channel="apns", message="x", collapse="c")
    submit(world.services(), task, ["ab" * 32], Watchers())
    records, controls = len(world.records), Controls(world.services)
    for message in ({"body": "x" * 4_090}, {"boddy": "x"}, {"body": "{{first name}}"}):
        with pytest.raises(InvalidInput, match="message: "):
            controls.edit("t", message)
    assert len(world.records) == records
    controls.edit("t", "new")
    assert fields(world) == [("override", '1:{"collapse":"c","body":"new"}')]


def test_edits_are_numbered(world: FakeService) -> None:
    controls = Controls(world.services)
    assert controls.edit("t", "first") == Edit(1, 1)
    assert controls.edit("t", {"title": "second", "n": 2}) == Edit(2, 2)
    assert fields(world) == [("override", '1:{"body":"first"}'), ("override", '2:{"title":"second","n":2}')]


def test_a_message_is_checked_as_that_of_a_task(world: FakeService) -> None:
    for message in ({"body": "x" * 17_000}, 5):
        with pytest.raises(InvalidInput, match="message"):
            Controls(world.services).edit("t", message)  # type: ignore[arg-type]
    assert fields(world) == []
    world.cancel("t")
    with pytest.raises(TaskEnded):
        Controls(world.services).edit("t", "late")


def test_a_cancel_says_what_was_in_flight_and_what_became_of_it(world: FakeService) -> None:
    world.in_flight = [InFlight(30, 2, 100), InFlight(10, 1, 115), InFlight(0, 0, 121)]
    assert Controls(world.services).end("t", CANCEL, wait_s=10) == Cancelled(30, 21, settled=True)
    assert world.steps[-1] == "in flight"
    world.in_flight = [InFlight(30, 2, 100)]
    assert Controls(world.services).end("t", CANCEL) == Cancelled(30, 0, settled=False)


@pytest.mark.parametrize("change", [*ALL.values(), lambda controls: controls.end("t", CANCEL)], ids=[*ALL, "cancel"])
def test_ended_and_unknown_tasks_take_no_change(world: FakeService, change: Change) -> None:
    world.finish("t")
    with pytest.raises(TaskEnded):
        change(Controls(world.services))
    with pytest.raises(NotFound):
        change(Controls(FakeService().services))


@pytest.mark.parametrize("change", ALL.values(), ids=ALL)
def test_a_cancelled_task_takes_no_change(world: FakeService, change: Change) -> None:
    world.cancel("t")
    with pytest.raises(TaskEnded):
        change(Controls(world.services))


def test_a_second_cancel_changes_nothing(world: FakeService) -> None:
    Controls(world.services).end("t", CANCEL)
    Controls(world.services).end("t", CANCEL)
    world.finish("t", "cancelled")
    Controls(world.services).end("t", CANCEL)
    assert fields(world) == [("cancelled", "1")]


def test_a_task_that_is_stopped_takes_no_change_and_a_second_stop_changes_nothing(world: FakeService) -> None:
    Controls(world.services).end("t", Changes(stopped=" no credential\n"))
    assert fields(world) == [("stopped", "no credential")]
    for change in ALL.values():
        with pytest.raises(TaskEnded, match="failed"):
            change(Controls(world.services))
    Controls(world.services).end("t", Changes(stopped="another reason"))
    world.finish("t", "failed")
    Controls(world.services).end("t", Changes(stopped="another reason"))
    assert len(fields(world)) == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda controls: controls.end("t", Changes(stopped="")),
        lambda controls: controls.end("t", Changes(stopped=" \n")),
        lambda controls: controls.change("t", Changes(weight=0)),
        lambda controls: controls.change("t", Changes(weight=1_001)),
        lambda controls: controls.change("t", Changes(tier="urgent")),
        lambda controls: controls.change("t", Changes(cap=-1)),
        lambda controls: controls.change("t", Changes(cap=0.5)),  # type: ignore[arg-type]
        lambda controls: controls.change("t", Changes(cap=[1])),  # type: ignore[arg-type]
        lambda controls: controls.change("t", Changes(weight="2")),  # type: ignore[arg-type]
        lambda controls: controls.change("t", Changes(weight=True)),
        lambda controls: Changes(weight=-1),
        lambda controls: Changes(paused="no"),  # type: ignore[arg-type]
        lambda controls: Changes(stopped=5),  # type: ignore[arg-type]
    ],
)
def test_values_out_of_range_are_refused(world: FakeService, change: Change) -> None:
    count = len(world.records)
    with pytest.raises(InvalidInput):
        change(Controls(world.services))
    assert len(world.records) == count


def test_a_close_is_for_tasks_that_have_not_ended_however_they_were_ended_before(world: FakeService) -> None:
    world.cancel("t")
    Controls(world.services).end("t", Changes(closed=" envelopes were lost\n"))
    assert fields(world)[-2:] == [("stopped", "envelopes were lost"), ("close", "envelopes were lost")]
    world.finish("t", "failed")
    with pytest.raises(TaskEnded):
        Controls(world.services).end("t", Changes(closed="again"))
    with pytest.raises(NotFound):
        Controls(FakeService().services).end("t", Changes(closed="why"))
    with pytest.raises(InvalidInput, match="reason"):
        Controls(world_with().services).end("t", Changes(closed=" "))
