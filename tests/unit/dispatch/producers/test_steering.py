"""Many tasks at once: which a filter takes, what would change, and what is told when a server goes away."""

from itertools import chain, repeat
from typing import Any
from unittest.mock import Mock

import pytest

from backends.pulsar.admin import PulsarAdmin
from backends.redis.registry.registry import Registry
from consumers.upkeep.lane_cleanup import create_missing_lane
from dispatcher.model.errors import FairlaneError, InvalidInput, NotFound, Refused, Unreachable
from dispatcher.model.pools import Cap
from dispatcher.model.view import TaskView
from dispatcher.wire.control import ControlChange
from dispatcher.wire.topics import Topics
from producers.control.steering import BulkChanges
from producers.control.task_changes import Changes, TaskFilter
from tests.contract.registry_records import position, task_record
from tests.records import finished
from tests.unit.dispatch.producers.fake_service import FakeService
from tests.unit.tasks import task_view as task
from tests.unit.views import FixedTasks, view_of
from tests.virtual_clock import VirtualClock


def steering(world: FakeService, *tasks: TaskView) -> BulkChanges:
    no_other = Mock(task=Mock(side_effect=NotFound("There is no such task.")))
    return BulkChanges(world.services, FixedTasks(*tasks), no_other)


def stored(world: FakeService) -> list[tuple[str, str, str]]:
    return [(r.task, r.field, r.value) for r in world.records_of(ControlChange)]


@pytest.mark.parametrize(
    ("wanted", "taken"),
    [
        ({"app": "shop"}, "abde"),
        ({"app": "shop", "tier": "low"}, "b"),
        ({"channel": "http"}, "d"),
        ({"state": "paused"}, "e"),
        ({"id_prefix": "c"}, "c"),
        ({"ids": ("a", "c"), "app": "shop"}, "a"),
    ],
)
def test_a_filter_takes_the_live_tasks_for_which_all_of_it_holds(wanted: dict[str, Any], taken: str) -> None:
    tasks = [
        task("a"),
        task("b", tier="low"),
        task("c", app="news"),
        task("d", channel="http"),
        task("e", state="paused"),
        task("x", state="cancelled"),
        task("y", state="completed", finished_ms=1),
    ]
    plan = steering(FakeService(), *tasks).plan(TaskFilter(**wanted), Changes(weight=2))
    assert "".join(step.task.id for step in plan.steps) == taken


def test_a_plan_says_what_changes_in_the_words_of_task_set() -> None:
    """Weights are stored in thousandths: `{'weight': '500'}` meant 0.5."""
    (step,) = (
        steering(FakeService(), task("a", cap=10)).plan(TaskFilter(ids=("a",)), Changes(weight=0.5, cap="none")).steps
    )
    assert step.changes == {"weight": ("1", "0.5"), "cap": ("10", "none")}
    (step,) = steering(FakeService(), task("a")).plan(TaskFilter(ids=("a",)), Changes(stopped="wrong text")).steps
    assert step.changes == {"state": ("running", "failed")}


def test_only_what_is_not_as_wished_is_changed(world: FakeService) -> None:
    tasks = [task("a", weight=2.0), task("b", cap=10, cap_burst=5), task("c", state="paused"), task("d", tier="low")]
    changes = Changes(weight=2, cap="10:5", paused=True, tier="low")
    plan = steering(world, *tasks).plan(TaskFilter(app="shop"), changes)
    missing = [set(changes.fields()) - {control.name for control in step.controls} for step in plan.steps]
    assert missing == [{"weight"}, {"cap"}, {"paused"}, {"tier"}]
    assert steering(world, task("a", weight=2.0)).plan(TaskFilter(app="shop"), Changes(weight=2)).changing == []


@pytest.mark.parametrize(("paused", "value"), [(True, "1"), (False, "0")])
def test_a_trial_send_is_paused_like_any_other_task_although_it_waits_for_a_go(
    world: FakeService, paused: bool, value: str
) -> None:
    """Its state is paused from the beginning; a pause stops its first targets too."""
    here = steering(world, task("a", state="paused", first=100, waits_for_go=True))
    plan = here.plan(TaskFilter(ids=("a",)), Changes(paused=paused))
    assert [step.changes for step in plan.steps] == [{"paused": ("trial", "yes" if paused else "no")}]
    assert here.carry_out(plan).changed == ("a",)
    assert stored(world) == [("a", "paused", value)]
    after = steering(world, plan.steps[0].after)
    assert after.plan(TaskFilter(ids=("a",)), Changes(paused=paused)).changing == []


def test_those_in_a_shared_lane_leave_it_first_and_their_lanes_are_created() -> None:
    world, topics = FakeService(), Topics()
    tasks = [task("a", tier="low", shared=True), task("b")]
    here = steering(world, *tasks)
    done = here.carry_out(here.plan(TaskFilter(app="shop"), Changes(weight=2)))
    assert stored(world) == [("a", "lane", topics.own_lane("a")), ("a", "weight", "2000"), ("b", "weight", "2000")]
    assert (done.changed, done.lanes, list(world.lanes)) == (("a", "b"), 1, [topics.own_lane("a")])
    world = FakeService()
    here = steering(world, *tasks)
    assert here.carry_out(here.plan(TaskFilter(app="shop"), Changes(cancelled=True))).lanes == 0


@pytest.mark.parametrize("error", [Unreachable, Refused])
def test_when_a_server_goes_away_in_the_middle_it_is_said_what_was_not_changed(error: type[FairlaneError]) -> None:
    world, tasks = FakeService(), [task(f"t{number:04d}") for number in range(1_200)]
    here = steering(world, *tasks)
    steps = 2 * 700  # each record is appended and applied
    world.fault = Mock(side_effect=chain(repeat(None, steps), repeat(error("Pulsar is gone."))))
    reported: list[tuple[int, int]] = []
    done = here.carry_out(here.plan(TaskFilter(app="shop"), Changes(weight=2)), lambda *counts: reported.append(counts))
    assert (len(done.changed), len(done.failed), reported) == (500, 700, [(500, 1_200)])
    assert set(done.changed) | set(done.failed) == {task.id for task in tasks}


def test_of_tasks_that_are_named_those_that_take_no_change_are_said() -> None:
    tasks = [task("a"), task("x", state="cancelled"), task("y", state="completed", finished_ms=1)]
    here = steering(FakeService(), *tasks)
    plan = here.plan(TaskFilter(ids=("a", "x", "y")), Changes(weight=2))
    assert set(plan.refused) == {"x", "y"}
    plan = here.plan(TaskFilter(ids=("a", "x", "y")), Changes(cancelled=True))
    assert (set(plan.refused), [step.task.id for step in plan.changing]) == ({"y"}, ["a"])
    with pytest.raises(NotFound):
        here.plan(TaskFilter(ids=("a", "z")), Changes(weight=2))


@pytest.mark.parametrize("changes", [{}, {"cap": "5:x"}, {"cap": "0:5"}])
def test_changes_that_are_none_and_caps_that_cannot_be_read_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Changes(**changes).fields()


def test_caps_can_be_written_in_several_ways() -> None:
    for stored, caps in {
        "100": (100, "100", Cap(100)),
        "100:20": ("100:20", Cap(100, 20)),
        "0": ("none", "0", 0),
    }.items():
        assert {Changes(cap=cap).fields()["cap"] for cap in caps} == {stored}


def test_filters_name_known_tiers_and_states() -> None:
    for wrong in ({"tier": "urgent"}, {"state": "completed"}):
        with pytest.raises(InvalidInput):
            TaskFilter(**wrong)  # type: ignore[arg-type]


class Broker(PulsarAdmin):
    def __init__(self) -> None:
        self.created: list[tuple[str, int]] = []

    def create_lane(self, topic: str, partitions: int = 0) -> None:
        self.created.append((topic, partitions))


def test_a_missing_lane_is_created_if_it_is_a_live_tasks_or_a_side_lane() -> None:
    broker, topics, registry = Broker(), Topics(), Registry(view_of(VirtualClock()))
    for name, partitions in (("live0", 0), ("live4", 4), ("ended", 0)):
        registry.control.apply(position(0), task_record(name, partitions=partitions))
    registry.control.apply(position(1), finished("ended"))
    wanted = [(topics.own_lane("live0"), 0), (topics.own_lane("live4"), 4), (topics.side_lane("shop", "http"), 0)]
    for lane, _ in wanted:
        create_missing_lane(broker, registry, lane)
    for provisioned in (topics.shared_lane(1), topics.outcomes(0)):
        create_missing_lane(broker, registry, provisioned)
    for gone in ("ended", "unknown"):
        with pytest.raises(NotFound):
            create_missing_lane(broker, registry, topics.own_lane(gone))
    assert broker.created == wanted
    assert registry.sides.topics() == {topics.side_lane("shop", "http")}, "so that workers attach to it"


def test_a_filter_that_names_nothing_is_refused() -> None:
    """As on the command line: a list of ids that happens to be empty must not take all tasks."""
    steered = steering(FakeService(), task("a"), task("b"))
    for empty in (TaskFilter(), TaskFilter(ids=())):
        with pytest.raises(InvalidInput, match="filter is empty"):
            steered.plan(empty, Changes(cancelled=True))


@pytest.mark.parametrize("name", ["app", "channel", "id_prefix"])
def test_a_filter_with_an_empty_text_is_refused(name: str) -> None:
    """As of a variable that is not set: `task cancel --id-prefix "$PREFIX" --yes` must not take all tasks."""
    fields: dict[str, Any] = {name: ""}
    with pytest.raises(InvalidInput, match=f"{name}: is empty"):
        TaskFilter(**fields)


def test_lanes_that_cannot_be_created_now_are_left_to_the_workers(world: FakeService) -> None:
    """The change is stored; the worker that moves the first envelope creates the missing lane."""
    world.fail_at("create", Unreachable("Pulsar's REST is away."))
    tasks = [task(name, tier="low", shared=True) for name in "abcdefgh"]
    steered = steering(world, *tasks)
    done = steered.carry_out(steered.plan(TaskFilter(tier="low"), Changes(weight=2)))
    assert done.changed == tuple("abcdefgh")
    assert world.lanes == {}


def test_a_close_takes_whatever_has_not_ended_and_is_refused_by_what_has() -> None:
    tasks = [
        task("a"),
        task("b", state="cancelled"),
        task("c", state="failed", reason="no credential"),
        task("d", state="failed", finished_ms=1),
        task("e", state="completed", finished_ms=1),
    ]
    world, closing = FakeService(), Changes(closed="lost")
    plan = steering(world, *tasks).plan(TaskFilter(ids=("a", "b", "c", "d", "e")), closing)
    assert [step.task.id for step in plan.changing] == ["a", "b", "c"]
    assert plan.changing[1].changes == {"state": ("cancelled", "failed")}
    assert list(plan.refused) == ["d", "e"]
    steering(world, *tasks).carry_out(plan)
    assert stored(world)[:2] == [("a", "stopped", "lost"), ("a", "close", "lost")]
    assert len(steering(world, *tasks).plan(TaskFilter(app="shop"), closing).steps) == 3
