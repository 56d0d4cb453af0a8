"""`fairlane task submit --first 100`: a hundred targets, then a go; and submissions that leave nothing behind."""

from contextlib import closing
from pathlib import Path

from backends.redis.epochs import Epochs
from backends.redis.view import open_view
from fairlane.settings import Settings
from tests.acceptance.command_server import CommandServer
from tests.acceptance.conftest import CommandLine, command_line
from tests.integration.worker_crew import crew, eventually

FIRST, ALL = 100, 3_000
NAMES = [f"sale-{number:06d}" for number in range(ALL)]


def targets_sent(fairlane: CommandLine, task: str) -> int:
    return int(fairlane.data("task", "show", task)["targets"]["sent"])


def test_a_task_is_sent_to_its_first_targets_and_after_a_go_to_all_others(
    fresh_settings: Settings, commands: CommandServer, tmp_path: Path
) -> None:
    """A worker is killed before the go, and the view is made again from Pulsar."""
    fairlane = command_line(fresh_settings, tmp_path, commands)
    with crew(fresh_settings, tmp_path / "crew", "a", "b") as workers:
        submitted = fairlane.submit("sale", ALL, "--channel", "log", "--first", str(FIRST), "--hold", "--chunk", "30")
        assert submitted.code == 0, submitted
        assert "sale: only the first 100 targets will be sent until `fairlane task resume sale`" in submitted.err
        eventually(lambda: len(workers.targets("sale")) == FIRST, 30, "the first targets are sent")
        eventually(lambda: targets_sent(fairlane, "sale") == FIRST, 30, "their outcomes are stored")
        workers.kill("a")
        with closing(open_view(fresh_settings.redis)) as view:
            view.wipe()
            eventually(Epochs(view).ready, 90, "the view is made again")
        assert fairlane.submit("other", 50, "--channel", "log", "--tier", "high").code == 0
        fairlane.data("task", "wait", "other", "--timeout", "60s")
        shown = fairlane("task", "show", "sale", "-o", "json")
        assert [shown.data[name] for name in ("state", "first", "waits_for_go", "sealed")] == [
            "paused",
            FIRST,
            True,
            True,
        ]
        assert shown.data["message"] == {"body": "Hi"}
        assert (shown.data["targets"]["sent"], shown.data["targets"]["pending"]) == (FIRST, ALL - FIRST)
        assert "sale is sent to its first 100 targets only, and waits for a go" in shown.err
        assert "waits for a go" in fairlane("task", "why", "sale").err
        assert "sale" not in fairlane("doctor").out
        assert workers.targets("sale") == dict.fromkeys(NAMES[:FIRST], 1)
        workers.join("c")
        workers.await_serving("c")
        assert fairlane("task", "resume", "sale").code == 0
        assert fairlane.data("task", "wait", "sale", "--timeout", "60s")["targets"]["sent"] == ALL
        assert workers.targets("sale") == dict.fromkeys(NAMES, 1)


def test_a_submission_that_its_channel_refuses_leaves_nothing_behind(
    fresh_settings: Settings, commands: CommandServer, tmp_path: Path
) -> None:
    fairlane = command_line(fresh_settings, tmp_path, commands)
    file = fairlane.file("devices.csv", f"token,town\n{'ab' * 32},Ulm\n")
    given = ("task", "submit", "--id", "t", "--app", "shop", "--channel", "apns", "--targets", file)
    for options, complaint in (
        (("--body", "Hi {{name}}"), "no column: name. Add the column, or write a default into the message"),
        (("--body", "x" * 4_090), "task: message: has 4,1"),
        (("--body", "Hi", "--collapse", "x" * 65), "task: collapse: has more than 64 bytes; shorten it"),
        (("--body", "Hi", "--options", '{"apn": {}}'), "task: options.apn: there are no options for this channel"),
    ):
        result = fairlane(*given, *options)
        assert (result.code, result.out) == (2, ""), result
        assert complaint in result.err
    bad = fairlane(*given[:-1], "-", "--body", "Hi", stdin="short\n")
    assert bad.code == 2
    assert "the target is not a device token in hexadecimal digits" in bad.err
    assert fairlane.data("task", "list") == []
    assert fairlane(*given, "--body", "Hi {{town}}").code == 0
