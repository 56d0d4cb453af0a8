"""`fairlane task list | show | pause | resume | cancel | set | edit`, with no worker that delivers."""

from typing import Any

import pytest

from fairlane.settings import Settings
from tests.acceptance.conftest import CommandLine
from tests.integration.worker_crew import crew, eventually

COUNTS = ["total", "sent", "invalid", "failed", "expired", "cancelled", "pending"]


@pytest.fixture(scope="module")
def tasks(fairlane: CommandLine, module_settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """big: of its own lane. small: low, in a shared lane. other: of another app. A worker was there, and has left."""
    with crew(module_settings, tmp_path_factory.mktemp("crew"), "w") as members:
        eventually(lambda: fairlane.data("registry", "status")["complete"], 30, "the view is complete")
        assert members.leave("w") == 0
    fairlane.file("five.txt", "".join(f"t{number}\n" for number in range(5)))
    for name, app, tier in (("big", "shop", "high"), ("small", "shop", "low"), ("other", "news", "medium")):
        options = ("--id", name, "--app", app, "--tier", tier, "--channel", "null", "--body", "Hi", "--expected", "5")
        result = fairlane("task", "submit", *options, "--targets", "five.txt")
        assert result.code == 0, result
    return fairlane


def shown(fairlane: CommandLine, task: str) -> Any:
    return fairlane.data("task", "show", task)


def ids(fairlane: CommandLine, *filters: str) -> list[str]:
    return [view["id"] for view in fairlane.data("task", "list", *filters)]


def test_a_task_as_json_has_what_was_submitted(tasks: CommandLine) -> None:
    view = shown(tasks, "other")
    assert [view[name] for name in ("id", "state", "tier", "weight")] == ["other", "running", "medium", 1.0]
    assert list(view["targets"]) == COUNTS
    assert view["targets"] == {**dict.fromkeys(COUNTS, 0), "total": 5, "pending": 5}
    [listed] = [view for view in tasks.data("task", "list") if view["id"] == "other"]
    assert view["message"] == {"body": "Hi"}
    assert {*listed.keys(), "message"} == view.keys()


def test_tables_for_people(tasks: CommandLine) -> None:
    table = tasks("task", "show", "other")
    trial = "channel null sends nothing: its targets count as sent\n"
    assert (table.code, table.err) == (0, f"{trial}other waits: no worker is running\n")
    for word in ("other", "medium", "targets.pending", "news"):
        assert word in table.out
    listed = tasks("task", "list")
    assert (listed.code, listed.err) == (0, trial)
    assert all(name in listed.out for name in ("big", "small", "other"))


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("fairlane task show bi", {"big"}),
        ("fairlane task pause o", {"other"}),
        ("fairlane task set big we", {"weight="}),
        ("fairlane task list --app ne", {"news"}),
        ("fairlane channel pause nu", {"null"}),
        ("fairlane app cap sh", {"shop"}),
        ("fairlane tier set h", {"high="}),
        ("fairlane simulate big", {"big-task-first"}),
        ("fairlane task sho", {"show"}),
        ("fairlane task show nob", set()),
    ],
)
def test_the_shell_completes(tasks: CommandLine, line: str, completed: set[str]) -> None:
    """As the line in the README sets it up."""
    words = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    result = tasks(env={"_FAIRLANE_COMPLETE": "bash_complete", **words})
    assert {found.partition(",")[2] for found in result.out.split()} == completed


def test_a_shell_without_servers_completes_nothing_and_says_nothing(tasks: CommandLine) -> None:
    words = {"COMP_WORDS": "fairlane task show bi", "COMP_CWORD": "3", "FAIRLANE_REDIS_URL": "redis://127.0.0.1:1/0"}
    result = tasks(env={"_FAIRLANE_COMPLETE": "bash_complete", **words})
    assert (result.code, result.out.strip(), result.err) == (0, "", "")


def test_what_measures_says_so_while_it_does(tasks: CommandLine) -> None:
    assert "measuring for 2 s" in tasks("signals", env={"FORCE_COLOR": "1"}).err  # as on a terminal
    assert "measuring" not in tasks("signals").err
    assert "two seconds" in " ".join(tasks("signals", "--help").out.split())


def test_lists_are_filtered(tasks: CommandLine) -> None:
    assert ids(tasks)[0] == "other"
    assert set(ids(tasks)) == {"big", "small", "other"}
    assert ids(tasks, "--tier", "low") == ["small"]
    assert ids(tasks, "--app", "news") == ["other"]
    assert ids(tasks, "--state", "cancelled") == []
    assert len(ids(tasks, "--limit", "2")) == 2


def test_a_task_is_steered(tasks: CommandLine) -> None:
    result = tasks("task", "pause", "big")
    assert (result.code, result.out) == (0, "")
    assert "big paused" in result.err
    assert shown(tasks, "big")["state"] == "paused"
    assert ids(tasks, "--state", "paused") == ["big"]
    assert tasks("task", "resume", "big").code == 0
    result = tasks("task", "set", "big", "weight=2.5", "tier=low", "cap=100")
    assert (result.code, result.out, result.err) == (0, "", "big weight=2.5 tier=low cap=100\n")
    view = shown(tasks, "big")
    assert (view["state"], view["weight"], view["tier"], view["cap"]) == ("running", 2.5, "low", 100)
    assert tasks("task", "set", "big", "cap=none").code == 0
    assert shown(tasks, "big")["cap"] == 0


def test_a_change_beyond_its_limits_is_named(tasks: CommandLine) -> None:
    before = shown(tasks, "other")
    for field, values in (("weight", ("heavy", "0", "nan")), ("tier", ("urgent",)), ("cap", ("-1", "1.5", "inf"))):
        for value in values:
            result = tasks("task", "set", "other", f"{field}={value}")
            assert (result.code, result.out) == (2, ""), result
            assert f"{field}: is" in result.err
    result = tasks("task", "set", "other", "colour=red")
    assert (result.code, result.out) == (2, "")
    assert "weight=VALUE or tier=VALUE or cap=VALUE" in result.err
    assert shown(tasks, "other") == before


def test_a_small_low_task_gets_a_lane_of_its_own_when_it_is_steered(tasks: CommandLine) -> None:
    before = shown(tasks, "small")
    assert before["shared"] is True
    assert tasks("task", "set", "small", "weight=2").code == 0
    view = shown(tasks, "small")
    assert (view["shared"], view["weight"]) == (False, 2.0)
    assert view["lane"].endswith("/small")
    assert tasks("task", "pause", "small").code == 0
    assert tasks("task", "set", "small", "paused=no", "weight=1").code == 0
    assert (shown(tasks, "small")["state"], shown(tasks, "small")["lane"]) == ("running", view["lane"])


def test_what_a_filter_takes_is_shown_and_not_changed_unasked(tasks: CommandLine) -> None:
    before = [shown(tasks, name) for name in ("big", "other", "small")]
    result = tasks("task", "set", "--app", "shop", "weight=4")
    assert (result.code, result.out) == (5, "")
    for word in ("2 tasks will be changed", "big: weight 2.5 -> 4", "small: weight 1 -> 4", "--yes"):
        assert word in result.err, result
    dry = tasks("task", "set", "--app", "shop", "weight=4", "--dry-run", "-o", "json")
    assert dry.code == 0
    assert {row["id"]: row["changes"] for row in dry.data["changes"]} == {
        "big": {"weight": ["2.5", "4"]},
        "small": {"weight": ["1", "4"]},
    }
    assert "2.5 -> 4" in tasks("task", "set", "--app", "shop", "weight=4", "--dry-run").out
    assert [shown(tasks, name) for name in ("big", "other", "small")] == before


def test_tasks_are_changed_by_a_filter_and_a_rerun_changes_what_is_left(tasks: CommandLine) -> None:
    changed = tasks.data("task", "set", "--app", "shop", "weight=4", "paused=yes", "--yes")
    assert {**changed, "changed": set(changed["changed"])} == {
        "changed": {"big", "small"},
        "unchanged": 0,
        "failed": {},
    }
    assert [shown(tasks, name)["weight"] for name in ("big", "small", "other")] == [4.0, 4.0, 1.0]
    again = tasks.data("task", "set", "--app", "shop", "weight=4", "--yes")
    assert again == {"changed": [], "unchanged": 2, "failed": {}}
    assert set(tasks.data("task", "resume", "--state", "paused", "--yes")["changed"]) == {"big", "small"}
    assert tasks.data("task", "pause", "--id-prefix", "ot", "--channel", "null", "--yes")["changed"] == ["other"]
    assert tasks.data("task", "resume", "other", "big")["changed"] == ["other"]
    assert tasks.data("task", "cancel", "--app", "nobody", "--yes")["changed"] == []
    for words in (("pause",), ("set", "weight=1"), ("set", "big"), ("cancel", "--yes")):
        assert tasks("task", *words).code == 2


def test_a_message_is_edited(tasks: CommandLine) -> None:
    tasks.file("message.json", '{"title": "Sale", "body": "60 %"}')
    assert tasks.data("task", "edit", "other", "--message", "message.json") == {"id": "other", "edit": 1, "latest": 1}
    result = tasks("task", "edit", "other", "--message", '{"body": "70 %"}')
    assert (result.code, result.out) == (0, "")
    assert "edit 2" in result.err
    assert tasks.data("task", "edit", "other", "--message", "just a text")["edit"] == 3
    for message in ("{not json", "x" * 20_000):
        assert tasks("task", "edit", "other", "--message", message).code == 2
    assert tasks("task", "edit", "nobody", "--message", "x").code == 3


def test_a_task_that_is_not_there(tasks: CommandLine) -> None:
    for command in ("show", "wait", "failures", "pause", "resume", "cancel"):
        result = tasks("task", command, "nobody")
        assert (result.code, result.out) == (3, "")
        assert "no task nobody" in result.err


def test_a_wait_that_takes_too_long(tasks: CommandLine) -> None:
    result = tasks("task", "wait", "other", "--timeout", "200ms")
    assert (result.code, result.out) == (4, "")
    assert "5 of 5 targets are open" in result.err


def test_a_cancelled_task_takes_no_more_changes(tasks: CommandLine) -> None:
    result = tasks("task", "cancel", "big", "small")
    assert result.code == 0
    assert "0 targets were in flight; 0 of them were sent" in result.err
    assert set(ids(tasks, "--state", "cancelled")) == {"big", "small"}
    assert tasks("task", "cancel", "big").code == 0
    for words in (("resume", "big"), ("set", "big", "weight=2"), ("edit", "big", "--message", "late")):
        result = tasks("task", *words)
        assert (result.code, result.out) == (5, ""), result
        assert "cancelled" in result.err
    assert tasks("task", "pause", "big", "other").code == 1
    assert shown(tasks, "other")["state"] == "paused"
    assert tasks("task", "resume", "other").code == 0


def test_a_view_that_is_not_there_is_told_as_such(tasks: CommandLine) -> None:
    empty = {"FAIRLANE_REDIS_PREFIX": "nothing-is-here"}
    result = tasks("registry", "status", "-o", "json", env=empty)
    assert (result.code, result.data["complete"], result.data["grants"]) == (0, False, False)
    result = tasks("task", "show", "big", env=empty)
    assert (result.code, result.out) == (4, "")
    assert "Workers rebuild it" in result.err
    assert tasks("worker", "list", "-o", "json", env=empty).data == []
