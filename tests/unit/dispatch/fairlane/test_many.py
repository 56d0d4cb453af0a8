"""Changes of many tasks by the command line: what is told, and with what the command exits."""

import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any
from unittest.mock import Mock

import pytest

from dispatcher.model.errors import Unreachable
from dispatcher.model.view import Globals, TaskView
from fairlane.cli.base import exit_codes
from fairlane.cli.handlers import change_tasks
from fairlane.cli.main import run
from producers.control.controls import Cancelled
from producers.control.steering import BulkResult, Plan, PlannedChange
from producers.control.task_changes import Changes, TaskFilter
from tests.unit.command_line import CommandLine
from tests.unit.tasks import task_view

GONE = "The broker cannot be reached."


class Client:
    """Knows some tasks. stops_after: how many are changed before the servers go away."""

    def __init__(self, *tasks: TaskView, stops_after: int = 1_000) -> None:
        self.tasks = tasks
        self.stops_after = stops_after
        self.followed: list[str] = []
        self.follow: Callable[[], Cancelled] = lambda: Cancelled(7, 3, settled=True)

    def plan_many(self, wanted: TaskFilter, changes: Changes) -> Plan:
        open_now = [task for task in self.tasks if not task.finished_ms]
        refused = {task.id: f"Task {task.id} has ended." for task in self.tasks if task.finished_ms}
        controls = changes.controls()
        steps = [PlannedChange(task, tuple(one for one in controls if not one.is_set(task))) for task in open_now]
        return Plan(tuple(steps), refused)

    def set_many(self, plan: Plan, on_progress: Callable[[int, int], None]) -> BulkResult:
        ids = [step.task.id for step in plan.changing]
        failed = {**plan.refused, **dict.fromkeys(ids[self.stops_after :], GONE)}
        return BulkResult(tuple(ids[: self.stops_after]), len(plan.steps) - len(ids), failed)

    def follow_cancelled(self, tasks: Sequence[str], wait_s: float, on_progress: Any) -> Cancelled:
        self.followed += tasks
        return self.follow()

    def live_tasks(self) -> list[TaskView]:
        return list(self.tasks)

    def workers(self) -> list[Any]:
        return []

    def globals(self) -> Globals:
        return Globals(capacity=100, tier_weights={"high": 6, "medium": 3, "low": 1})


Connect = Callable[[Client], Client]


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> Connect:
    """Makes commands use a client."""

    def use(client: Client) -> Client:
        monkeypatch.setattr(change_tasks, "client_of", lambda _: nullcontext(client))
        return client

    return use


OPEN, OTHER, ENDED = task_view("a", 10), task_view("b", 10), task_view("z", finished_ms=1, state="completed")


@pytest.mark.parametrize(
    ("client", "code"),
    [
        (Client(OPEN, OTHER), exit_codes.OK),
        (Client(OPEN, ENDED), exit_codes.FAILURE),
        (Client(ENDED), exit_codes.REFUSED),
        (Client(OPEN, OTHER, stops_after=0), exit_codes.UNREACHABLE),
        (Client(OPEN, OTHER, ENDED, stops_after=1), exit_codes.UNREACHABLE),
    ],
)
def test_the_exit_code_says_why_something_was_not_changed(client: Client, code: int, connected: Connect) -> None:
    connected(client)
    assert run(["task", "set", "a", "b", "z", "weight=2"]) == code


def test_a_server_that_goes_away_is_told_once(connected: Connect, cli: CommandLine) -> None:
    connected(Client(*(task_view(f"t{number}") for number in range(50)), stops_after=10))
    printed = cli(["task", "pause", "--app", "shop", "--yes"], exit_codes.UNREACHABLE).err
    assert printed.count(GONE) == 1
    assert "40 tasks may be unchanged; run the same command again to change them" in printed


def test_a_cancel_says_what_was_in_flight_also_if_one_task_had_ended(connected: Connect, cli: CommandLine) -> None:
    client = connected(Client(OPEN, ENDED))
    printed = cli(["task", "cancel", "a", "z", "-o", "json"], exit_codes.FAILURE)
    assert json.loads(printed.out) == {
        "changed": ["a"],
        "unchanged": 0,
        "failed": {"z": "Task z has ended."},
        "in_flight": 7,
        "sent": 3,
        "settled": True,
    }
    assert "7 targets were in flight; 3 of them were sent" in printed.err
    assert client.followed == ["a"]


def test_a_stop_says_the_same_and_wants_a_reason(connected: Connect, cli: CommandLine) -> None:
    connected(Client(OPEN))
    reported = cli(["task", "stop", "a", "--reason", "no credential", "-o", "json"])
    assert json.loads(reported.out)["changed"] == ["a"]
    assert "a failed" in reported.err
    assert "7 targets were in flight; 3 of them were sent" in reported.err
    assert run(["task", "stop", "a"]) == exit_codes.USAGE


def test_a_close_takes_a_task_that_was_cancelled_and_is_refused_by_one_that_has_ended(
    connected: Connect, cli: CommandLine
) -> None:
    connected(Client(OPEN))
    assert "a is closed" in cli(["task", "close", "a", "--reason", "lost"]).err
    connected(Client(ENDED))
    assert run(["task", "close", "z", "--reason", "lost"]) == exit_codes.REFUSED
    assert run(["task", "close", "z"]) == exit_codes.USAGE


def test_a_cancel_whose_targets_in_flight_cannot_be_read_still_says_what_it_changed(
    connected: Connect, cli: CommandLine
) -> None:
    connected(Client(OPEN)).follow = Mock(side_effect=Unreachable("Redis is gone.", "Try again."))
    reported = cli(["task", "cancel", "a", "-o", "json"])
    assert json.loads(reported.out) == {"changed": ["a"], "unchanged": 0, "failed": {}}
    assert "in flight is not known: Redis is gone." in reported.err


def test_a_preview_shows_bursts_and_what_takes_no_change(connected: Connect, cli: CommandLine) -> None:
    connected(Client(task_view("a", cap=100, cap_burst=20), ENDED))
    reported = json.loads(cli(["task", "set", "a", "z", "cap=100:40", "--dry-run", "-o", "json"]).out)
    assert reported["changes"] == [{"id": "a", "changes": {"cap": ["100:20", "100:40"]}}]
    assert reported["refused"] == {"z": "Task z has ended."}
    shown = cli(["task", "set", "a", "z", "cap=none", "--dry-run"])
    assert "100:20 -> none" in shown.out
    assert "Task z has ended." in shown.err


def test_a_dry_run_shows_the_most_affected_tasks_and_as_json_all_of_them(connected: Connect, cli: CommandLine) -> None:
    """As many as `--limit` says."""
    connected(Client(*(task_view(f"t{n}", 100) for n in range(30)), task_view("u", 100_000, weight=30.0)))
    dry_run = ["task", "set", *(f"t{n}" for n in range(30)), "weight=3", "--dry-run"]

    def shown(*more: str) -> str:
        return cli([*dry_run, *more]).out

    affected = json.loads(shown("-o", "json"))["affected"]
    assert affected > 20
    assert len(json.loads(shown("-o", "json"))["tasks"]) == affected
    assert len(json.loads(shown("-o", "json", "--limit", "3"))["tasks"]) == 3
    assert f"and {affected - 20} more" in shown()
    assert f"and {affected - 3} more" in shown("--limit", "3")
