"""The queue of tasks that are to be ended, while they cannot be."""

from collections.abc import Sequence

from consumers.finishing import Finisher
from dispatcher.clock import VirtualClock
from dispatcher.control import ControlRecord
from dispatcher.view import TargetCounts, TaskView
from tests.actors import running
from tests.unit.consumers.fakes import ControlTopic, eventually
from tests.unit.tasks import task_view


class Table:
    """All its tasks are complete. asked: ids."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def tasks_by_id(self, tasks: Sequence[str]) -> list[TaskView]:
        self.asked += tasks
        return [task_view(task, targets=TargetCounts(total=1, sent=1)) for task in tasks]

    def apply_all(self, records: Sequence[tuple[str, ControlRecord]]) -> list[str]:
        return []


def test_a_task_that_is_named_again_and_again_while_pulsar_is_gone_stands_in_the_queue_once() -> None:
    table, control = Table(), ControlTopic()
    finisher = Finisher(table, lambda: True, control, VirtualClock(), retry_s=0.001)
    names = [f"t{number}" for number in range(250)]
    for _ in range(40):
        finisher.take(names)
    with running(finisher.run):
        eventually(lambda: len(control.records) >= 250)
    assert sorted(table.asked) == sorted(names)


def test_a_task_is_taken_again_once_it_was_looked_at() -> None:
    """It may not have been complete then."""
    table, control = Table(), ControlTopic()
    finisher = Finisher(table, lambda: True, control, VirtualClock(), retry_s=0.001)
    with running(finisher.run):
        finisher.take(["a"])
        eventually(lambda: table.asked == ["a"])
        finisher.take(["a"])
        eventually(lambda: table.asked == ["a", "a"])
