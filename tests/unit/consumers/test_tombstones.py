"""A complete task gets its tombstone, whatever else cannot be ended."""

from collections.abc import Sequence

import msgspec
import pytest

from consumers.upkeep.finishing import Finisher
from dispatcher.clock import VirtualClock
from dispatcher.model.errors import Unreachable
from dispatcher.model.view import TargetCounts, TaskView
from dispatcher.wire.control import ControlRecord, Finished
from tests.actors import running
from tests.unit.consumers.fakes import ControlTopic, control_records, eventually


def view(task: str = "a", sealed: bool = True, finished_ms: int = 0, **counts: int) -> TaskView:
    targets = TargetCounts(total=sum(counts.values()), **counts)
    return TaskView(
        task, "app", "high", "null", "running", sealed, 1.0, 0, targets, 0.0, None, 0, f"lane/{task}", False, 100, 0,
        0, 0, 0, 0, finished_ms,
    )  # fmt: skip


class Table:
    def __init__(self, view: TaskView | None) -> None:
        self.view = view
        self.applied: list[ControlRecord] = []
        self.gone = 0

    def tasks_by_id(self, tasks: Sequence[str]) -> list[TaskView]:
        if self.gone:
            self.gone -= 1
            raise Unreachable("Redis is gone.")
        return [msgspec.structs.replace(self.view, id=task) for task in tasks] if self.view else []

    def apply_all(self, records: Sequence[tuple[str, ControlRecord]]) -> None:
        self.applied += [record for _, record in records]


def test_a_complete_task_gets_its_tombstone_in_the_control_topic_and_the_view() -> None:
    table, control = Table(view(sent=3, invalid=1)), ControlTopic()
    assert Finisher(table, lambda: True, control, VirtualClock()).finish(["a"]) == ["a"]
    expected = Finished(1, "a", "completed", [3, 1, 0, 0, 0], VirtualClock().wall_ms())
    assert control_records(control) == [expected]
    assert table.applied == [expected]


@pytest.mark.parametrize(
    "open_view", [view(sent=1, pending=1), view(sealed=False, sent=1), view(sent=1, finished_ms=5), None]
)
def test_an_incomplete_ended_or_unknown_task_gets_none(open_view: TaskView | None) -> None:
    control = ControlTopic()
    assert not Finisher(Table(open_view), lambda: True, control, VirtualClock()).finish(["a"])
    assert control.records == []


def test_nothing_is_ended_while_the_view_is_being_rebuilt() -> None:
    control = ControlTopic()
    assert not Finisher(Table(view(sent=1)), lambda: False, control, VirtualClock()).finish(["a"])
    assert control.records == []


def test_ending_is_tried_again_when_a_server_was_gone() -> None:
    table, control = Table(view(sent=1)), ControlTopic()
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
    finisher = Finisher(Poisoned(view(sent=1)), lambda: True, control, VirtualClock(), retry_s=0.001)
    finisher.take(["a", "b", "c"])
    with running(finisher.run):
        eventually(lambda: len(control.records) == 2)
    assert "Task b has an outcome for every target and cannot be ended" in caplog.text


def test_tasks_that_end_together_are_ended_together() -> None:
    table, control = Table(view(sent=1)), ControlTopic()
    finisher = Finisher(table, lambda: True, control, VirtualClock(), retry_s=0.001)
    names = [f"t{number}" for number in range(250)]
    finisher.take(names)
    with running(finisher.run):
        eventually(lambda: len(control.records) == 250)
    assert sorted(record.task for record in table.applied if isinstance(record, Finished)) == sorted(names)
    assert control.calls <= 4
