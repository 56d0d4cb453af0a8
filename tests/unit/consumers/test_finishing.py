"""The queue of tasks that are to be ended, while they cannot be."""

from collections.abc import Sequence

import pytest

from consumers.upkeep.finishing import Finisher, end_of
from dispatcher.clock import VirtualClock
from dispatcher.model.view import TargetCounts, TaskView
from dispatcher.wire.control import ControlRecord, Finished, decode_control
from tests.actors import running
from tests.unit.consumers.fakes import ControlTopic, eventually
from tests.unit.tasks import task_view


class Table:
    """All its tasks are complete. asked: ids."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.views: dict[str, TaskView] = {}

    def tasks_by_id(self, tasks: Sequence[str]) -> list[TaskView]:
        self.asked += tasks
        done = TargetCounts(total=1, sent=1)
        return [self.views.get(task) or task_view(task, targets=done) for task in tasks]

    def apply_all(self, records: Sequence[tuple[str, ControlRecord]]) -> None: ...


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
    (record,) = [decode_control(stored.body) for stored in control.records]
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
    (record,) = [decode_control(stored.body) for stored in control.records]
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
