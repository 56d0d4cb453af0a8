"""The queue of tasks that are to be ended, how a task ends, and its tombstone, whatever else cannot be ended."""

from collections.abc import Callable

import pytest

from backends.redis.registry.task_rows import TASK_VIEW
from consumers.upkeep.finishing import Finisher, end_of
from dispatcher.model.view import TargetCounts
from dispatcher.wire.control import Finished
from tests.actors import running
from tests.contract.registry_records import position
from tests.records import finished
from tests.unit.dispatch.consumers.fakes import ControlTopic, Table, control_records, eventually
from tests.unit.tasks import task_view
from tests.virtual_clock import VirtualClock


def finisher_of(table: Table, control: ControlTopic, *, complete: bool = True) -> Finisher:
    return Finisher(table, lambda: complete, control, VirtualClock(), retry_s=0.001)


def test_tasks_are_ended_together_and_each_once_however_often_it_was_named() -> None:
    table, control = Table(), ControlTopic()
    finisher = finisher_of(table, control)
    names = [f"t{number}" for number in range(250)]
    for task in names:
        table.put(task, sent=1)
    for _ in range(40):
        finisher.take(names)
    with running(finisher.run):
        eventually(lambda: len(control.records) >= 250)
    assert sorted(table.tasks.asked) == sorted(names)
    assert (len(control.records), control.calls) == (250, 3)


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
    view = task_view("t", state=asked, reason=reason, targets=TargetCounts(total=sum(counts.values()), **counts))
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
    table.put("t", sealed=False, closed=True, **counts)
    if asked == "expired":
        table.view.command("HSET", table.view.keys.task("t"), "expires_ms", table.clock.wall_ms() - 1)
    else:
        table.change("t", "stopped" if reason else "cancelled", reason or "1")
    finisher_of(table, control).finish(["t"])
    (record,) = control_records(control)
    assert isinstance(record, Finished)
    assert (record.state, record.reason) == (asked, reason)


def test_a_task_that_is_neither_sealed_nor_closed_goes_on() -> None:
    table, control = Table(), ControlTopic()
    table.put("t", sealed=False, sent=5)
    table.change("t", "cancelled", "1")
    assert finisher_of(table, control).finish(["t"]) == []


def test_the_reason_is_in_the_tombstone() -> None:
    table, control = Table(), ControlTopic()
    table.put("t", failed=2, invalid=1)
    finisher_of(table, control).finish(["t"])
    (record,) = control_records(control)
    assert isinstance(record, Finished)
    assert (record.state, record.counts) == ("failed", [0, 1, 2, 0, 0])
    assert record.reason.startswith("nothing was sent: 2 targets failed and 1 invalid")


def test_a_task_is_taken_again_once_it_was_looked_at() -> None:
    """It may not have been complete then."""
    table, control = Table(), ControlTopic()
    finisher = finisher_of(table, control)
    with running(finisher.run):
        finisher.take(["a"])
        eventually(lambda: table.tasks.asked == ["a"])
        finisher.take(["a"])
        eventually(lambda: table.tasks.asked == ["a", "a"])


# ------------------------------------------------------------------ tombstones
def test_a_complete_task_gets_its_tombstone_in_the_control_topic_and_the_view() -> None:
    table, control = Table(), ControlTopic()
    table.put("a", sent=3, invalid=1)
    assert finisher_of(table, control).finish(["a"]) == ["a"]
    now_ms = VirtualClock().wall_ms()
    assert control_records(control) == [finished("a", 3, 1, at_ms=now_ms)]
    (end,) = table.tasks.named(["a"], TASK_VIEW, ended=True)
    assert (end.state, end.targets, end.finished_ms) == ("completed", TargetCounts(total=4, sent=3, invalid=1), now_ms)


def ended(table: Table) -> None:
    table.put("a", sent=1)
    table.control.apply(position(0), finished("a", 1, at_ms=5))


@pytest.mark.parametrize(
    "prepare",
    [
        lambda table: table.put("a", sent=1, pending=1),
        lambda table: table.put("a", sealed=False, sent=1),
        ended,
        lambda table: table.put("b", sent=1),
    ],
    ids=["pending", "not-sealed", "ended", "unknown"],
)
def test_an_incomplete_ended_or_unknown_task_gets_none(prepare: Callable[[Table], None]) -> None:
    table, control = Table(), ControlTopic()
    prepare(table)
    assert not finisher_of(table, control).finish(["a"])
    assert control.records == []


def test_nothing_is_ended_while_the_view_is_being_rebuilt() -> None:
    table, control = Table(), ControlTopic()
    table.put("a", sent=1)
    assert not finisher_of(table, control, complete=False).finish(["a"])
    assert control.records == []


def test_ending_is_tried_again_when_a_server_was_gone() -> None:
    table, control = Table(), ControlTopic()
    table.put("a", sent=1)
    table.redis.gone, asked = True, table.redis.asked
    finisher = finisher_of(table, control)
    with running(finisher.run):
        finisher.take(["a"])
        eventually(lambda: table.redis.asked > asked + 1)
        table.redis.gone = False
        eventually(lambda: len(control.records) == 1)


def test_a_task_that_cannot_be_ended_keeps_no_other_from_it(caplog: pytest.LogCaptureFixture) -> None:
    table, control = Table(), ControlTopic()
    for task in ("a", "b", "c"):
        table.put(task, sent=1)
    table.view.command("HSET", table.view.keys.task("b"), "lane", b"\xff")
    finisher = finisher_of(table, control)
    finisher.take(["a", "b", "c"])
    with running(finisher.run):
        eventually(lambda: len(control.records) == 2)
        eventually(lambda: "Task b has an outcome for every target but cannot be ended" in caplog.text)
