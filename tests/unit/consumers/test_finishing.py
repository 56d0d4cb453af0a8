"""The queue of tasks that are to be ended, how a task ends, and its tombstone, whatever else cannot be ended."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from consumers.upkeep.finishing import Finisher, end_of
from dispatcher.clock import VirtualClock
from dispatcher.model.errors import Unreachable
from dispatcher.model.view import TargetCounts, TaskView
from dispatcher.wire.control import ControlRecord, Finished
from tests.actors import running
from tests.unit.consumers.fakes import ControlTopic, control_records, eventually
from tests.unit.tasks import task_view


def view_of(**counts: int) -> TaskView:
    """A task with these outcomes."""
    return task_view("a", targets=TargetCounts(total=sum(counts.values()), **counts))


COMPLETE = view_of(sent=1)


class Table:
    """Its tasks are complete, unless a view says otherwise: of one by its id, or of all. asked: ids."""

    def __init__(self, view: TaskView | None = COMPLETE) -> None:
        self.asked: list[str] = []
        self.view, self.views = view, dict[str, TaskView]()
        self.applied: list[ControlRecord] = []
        self.gone = 0

    def tasks_by_id(self, tasks: Sequence[str]) -> list[TaskView]:
        if self.gone:
            self.gone -= 1
            raise Unreachable("Redis is gone.")
        self.asked += tasks
        found = [(task, self.views.get(task, self.view)) for task in tasks]
        return [replace(view, id=task) for task, view in found if view]

    def apply_all(self, records: Sequence[tuple[str, ControlRecord]]) -> None:
        self.applied += [record for _, record in records]


def test_a_task_that_is_named_again_and_again_while_pulsar_is_gone_stands_in_the_queue_once() -> None:
    table, control = Table(), ControlTopic()
    finisher = Finisher(table, lambda: True, control, VirtualClock(), retry_s=0.001)
    names = [f"t{number}" for number in range(250)]
    for _ in range(40):
        finisher.take(names)
    with running(finisher.run):
        eventually(lambda: len(control.records) >= 250)
    assert sorted(table.asked) == sorted(names)


ALL_ZERO = dict.fromkeys(("sent", "invalid", "failed", "expired", "cancelled"), 0)
ENDS = [
    # asked, what became of the targets, the end
    ("running", {"sent": 3}, "completed"),
    ("running", {}, "completed"),
    ("running", {"sent": 1, "failed": 9}, "completed"),
    ("running", {"invalid": 3}, "completed"),
    ("running", {"failed": 1}, "failed"),
    ("paused", {"failed": 1, "invalid": 5}, "failed"),
    ("running", {"failed": 1, "expired": 1}, "expired"),
    ("running", {"sent": 5, "expired": 1}, "expired"),
    ("expired", {"sent": 5}, "completed"),
    ("expired", {"failed": 5}, "failed"),
    ("cancelled", {"sent": 5, "cancelled": 1}, "cancelled"),
    ("cancelled", {"failed": 5, "cancelled": 1}, "cancelled"),
    ("cancelled", {"expired": 5, "cancelled": 1}, "cancelled"),
    ("cancelled", {"sent": 5}, "completed"),
    ("cancelled", {"failed": 5}, "failed"),
    ("failed", {"sent": 5, "cancelled": 1}, "failed"),
    ("failed", {"expired": 5, "cancelled": 1}, "failed"),
    ("failed", {"sent": 5}, "completed"),
]


@pytest.mark.parametrize(("asked", "counts", "end"), ENDS)
def test_how_a_task_ends(asked: str, counts: dict[str, int], end: str) -> None:
    """Stopped for a reason, a task is shown as failed before it has ended."""
    reason = "no credential" if asked == "failed" else ""
    view = task_view("t", state=asked, reason=reason, targets=TargetCounts(sum(counts.values()), **ALL_ZERO | counts))
    state, why = end_of(view)
    assert state == end
    assert bool(why) == (end == "failed")
    assert why == reason or asked != end


@pytest.mark.parametrize(
    ("asked", "counts"),
    [
        ("cancelled", {"sent": 5}),
        ("cancelled", {}),
        ("cancelled", {"failed": 5}),
        ("failed", {"sent": 5}),
        ("expired", {"sent": 5}),
        ("expired", {"failed": 5}),
    ],
)
def test_a_task_that_was_ended_before_its_audience_was_complete_is_not_completed(
    asked: str, counts: dict[str, int]
) -> None:
    """Every target that came has its outcome, but the rest of the audience was never taken."""
    table, control = Table(), ControlTopic()
    reason = "revoked" if asked == "failed" else ""
    targets = TargetCounts(sum(counts.values()), **ALL_ZERO | counts)
    half = {"sealed": False, "closed": True}
    table.views = {"t": task_view("t", state=asked, reason=reason, targets=targets, **half)}
    Finisher(table, lambda: True, control, VirtualClock()).finish(["t"])
    (record,) = control_records(control)
    assert isinstance(record, Finished)
    assert (record.state, record.reason) == (asked, reason)


def test_a_task_that_is_neither_sealed_nor_closed_goes_on() -> None:
    table, control = Table(), ControlTopic()
    table.views = {"t": task_view("t", state="cancelled", sealed=False, targets=TargetCounts(total=5, sent=5))}
    assert Finisher(table, lambda: True, control, VirtualClock()).finish(["t"]) == []


def test_the_reason_is_in_the_tombstone() -> None:
    table, control = Table(), ControlTopic()
    table.views = {"t": task_view("t", targets=TargetCounts(total=3, failed=2, invalid=1))}
    Finisher(table, lambda: True, control, VirtualClock()).finish(["t"])
    (record,) = control_records(control)
    assert isinstance(record, Finished)
    assert (record.state, record.counts) == ("failed", [0, 1, 2, 0, 0])
    assert record.reason.startswith("nothing was sent: 2 targets failed and 1 invalid")


def test_a_task_is_taken_again_once_it_was_looked_at() -> None:
    """It may not have been complete then."""
    table, control = Table(), ControlTopic()
    finisher = Finisher(table, lambda: True, control, VirtualClock(), retry_s=0.001)
    with running(finisher.run):
        finisher.take(["a"])
        eventually(lambda: table.asked == ["a"])
        finisher.take(["a"])
        eventually(lambda: table.asked == ["a", "a"])


# ------------------------------------------------------------------ tombstones
def test_a_complete_task_gets_its_tombstone_in_the_control_topic_and_the_view() -> None:
    table, control = Table(view_of(sent=3, invalid=1)), ControlTopic()
    assert Finisher(table, lambda: True, control, VirtualClock()).finish(["a"]) == ["a"]
    expected = Finished(1, "a", "completed", [3, 1, 0, 0, 0], VirtualClock().wall_ms())
    assert control_records(control) == [expected]
    assert table.applied == [expected]


@pytest.mark.parametrize(
    "open_view", [view_of(sent=1, pending=1), replace(COMPLETE, sealed=False), replace(COMPLETE, finished_ms=5), None]
)
def test_an_incomplete_ended_or_unknown_task_gets_none(open_view: TaskView | None) -> None:
    control = ControlTopic()
    assert not Finisher(Table(open_view), lambda: True, control, VirtualClock()).finish(["a"])
    assert control.records == []


def test_nothing_is_ended_while_the_view_is_being_rebuilt() -> None:
    control = ControlTopic()
    assert not Finisher(Table(), lambda: False, control, VirtualClock()).finish(["a"])
    assert control.records == []


def test_ending_is_tried_again_when_a_server_was_gone() -> None:
    table, control = Table(), ControlTopic()
    table.gone = 2
    finisher = Finisher(table, lambda: True, control, VirtualClock(), retry_s=0.001)
    with running(finisher.run):
        finisher.take(["a"])
        eventually(lambda: len(control.records) == 1)


def test_a_task_that_cannot_be_ended_keeps_no_other_from_it(caplog: pytest.LogCaptureFixture) -> None:
    class Poisoned(Table):
        def tasks_by_id(self, tasks: Sequence[str]) -> list[TaskView]:
            if "b" in tasks:
                raise ValueError("invalid literal for int(): 'x'")
            return super().tasks_by_id(tasks)

    control = ControlTopic()
    finisher = Finisher(Poisoned(), lambda: True, control, VirtualClock(), retry_s=0.001)
    finisher.take(["a", "b", "c"])
    with running(finisher.run):
        eventually(lambda: len(control.records) == 2)
    assert "Task b has an outcome for every target but cannot be ended" in caplog.text


def test_tasks_that_end_together_are_ended_together() -> None:
    table, control = Table(), ControlTopic()
    finisher = Finisher(table, lambda: True, control, VirtualClock(), retry_s=0.001)
    names = [f"t{number}" for number in range(250)]
    finisher.take(names)
    with running(finisher.run):
        eventually(lambda: len(control.records) == 250)
    assert sorted(record.task for record in table.applied if isinstance(record, Finished)) == sorted(names)
    assert control.calls <= 4
