"""The command line's manners: help, exit codes, one-line errors, output, logs."""

import json
import logging
import subprocess
import sys
from collections.abc import Callable
from errno import EROFS

import click
import pytest

from dispatcher.model.errors import InvalidInput, NotFound, Refused, Unreachable
from fairlane.cli import main
from fairlane.cli.base import exit_codes
from fairlane.cli.base.output import Output
from fairlane.logging import configure_logging
from fairlane.setting_groups import LogSettings
from tests.unit.command_line import CommandLine

Failing = Callable[[BaseException], None]
PULSAR = {"pulsar", "_pulsar", "urllib3"}
HEAVY = PULSAR | {"redis", "pydantic", "aiohttp", "rich", "yaml", "prometheus_client"}
SERVERS = (HEAVY - {"pydantic"}) | {"asyncio", "pyspark", "producers.client", "fairlane.settings"}
HELP = "from fairlane.cli.main import run; run(['--help'])"
HELP_OF_ANY_COMMAND = """
import click
from fairlane.cli.main import cli

def load(group):
    with click.Context(group) as context:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            if isinstance(command, click.Group):
                load(command)

load(cli)
"""
READING = (
    "import producers.client, fairlane.cli.handlers.task, fairlane.cli.handlers.why, fairlane.cli.handlers.service"
)
"""Looks at tasks and changes nothing."""
WORKER = "import fairlane.cli.main, fairlane.cli.commands.worker, fairlane.cli.handlers.worker"


def test_help_names_every_command_and_exit_code(cli: CommandLine) -> None:
    printed = cli(["--help"]).out
    for command in main.COMMANDS:
        assert f"\n  {command} " in printed
    for code, meaning in exit_codes.MEANINGS.items():
        assert f"  {code}" in printed
        assert meaning.split()[0] in printed


@pytest.mark.parametrize(
    ("code", "heavy"),
    [(HELP, HEAVY), (HELP_OF_ANY_COMMAND, SERVERS), (READING, PULSAR), (WORKER, {"producers.client", "rich"})],
    ids=["help", "help of any command", "reading", "worker"],
)
def test_only_what_is_needed_is_loaded(code: str, heavy: set[str]) -> None:
    """Help takes 0.15 s because of this, and 0.5 s if it loads what the command itself needs."""
    code += "\nimport sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not heavy & set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    "arguments", [["nope"], ["--nope"], ["config", "show", "-o", "xml"], ["--log-level", "loud", "config"]]
)
def test_wrong_usage(arguments: list[str], cli: CommandLine) -> None:
    captured = cli(arguments, exit_codes.USAGE)
    assert captured.out == ""
    assert "Error" in captured.err


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Failing:
    """Makes `fairlane config` raise."""

    def raise_in_config(error: BaseException) -> None:
        @click.command()
        def config() -> None:
            raise error

        monkeypatch.setattr(main.MainGroup, "get_command", lambda *_: config)

    return raise_in_config


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidInput("Cause.", "Step."), exit_codes.USAGE),
        (NotFound("Cause.", "Step."), exit_codes.NOT_FOUND),
        (Unreachable("Cause.", "Step."), exit_codes.UNREACHABLE),
        (Refused("Cause.", "Step."), exit_codes.REFUSED),
    ],
)
def test_our_errors_are_one_line_with_cause_and_next_step(
    error: Exception, code: int, failing: Failing, cli: CommandLine
) -> None:
    failing(error)
    assert cli(["config"], code).err == "fairlane: Cause. Step.\n"


def test_a_defect_is_one_line_too_and_its_trace_is_for_those_who_ask(failing: Failing, cli: CommandLine) -> None:
    failing(ZeroDivisionError("oops"))
    printed = cli(["config"], exit_codes.FAILURE).err
    assert printed.count("\n") == 1
    assert "ZeroDivisionError: oops" in printed
    assert "Traceback" in cli(["--log-level", "debug", "config"], exit_codes.FAILURE).err


def test_a_disk_that_cannot_be_written_is_no_defect(failing: Failing, cli: CommandLine) -> None:
    failing(OSError(EROFS, "Read-only file system", "/home/x/logs"))
    printed = cli(["config"], exit_codes.FAILURE).err
    assert printed.startswith("fairlane: /home/x/logs: Read-only file system. Check free space and permissions")


def test_an_argument_that_is_no_text_is_no_defect(failing: Failing, cli: CommandLine) -> None:
    failing(UnicodeEncodeError("utf-8", "task-\udcff", 5, 6, "surrogates not allowed"))
    printed = cli(["config"], exit_codes.FAILURE).err
    assert printed == "fairlane: an argument is not text in UTF-8: 'task-\\udcff'.\n"


def test_interrupted(failing: Failing) -> None:
    failing(KeyboardInterrupt())
    assert main.run(["config"]) == exit_codes.INTERRUPTED


def test_config_show_in_both_forms(monkeypatch: pytest.MonkeyPatch, cli: CommandLine) -> None:
    monkeypatch.setenv("FAIRLANE_REDIS_PASSWORD", "hush")
    options = ["--pulsar-url", "pulsar://there:1", "--redis-url", "redis://a:hush@b"]
    table = cli([*options, "config", "show"]).out
    rows = {row["name"]: row for row in json.loads(cli([*options, "config", "show", "-o", "json"]).out)}
    assert rows["pulsar.url"]["value"] == "pulsar://there:1"
    assert rows["pulsar.url"]["source"] == "option"
    assert all(row["description"] for row in rows.values())
    assert all(name in table for name in rows)
    assert "hush" not in table + json.dumps(rows)


def test_a_wrong_setting_ends_with_the_usage_code(cli: CommandLine) -> None:
    assert "redis.url (option)" in cli(["--redis-url", "nowhere", "config", "show"], exit_codes.USAGE).err


def test_stack_status_without_a_stack(cli: CommandLine) -> None:
    found = json.loads(cli(["stack", "status", "-o", "json"], exit_codes.FAILURE).out)
    assert found["running"] is False
    assert found["pulsar"]["pid"] is None


def test_stack_down_without_a_stack(cli: CommandLine) -> None:
    assert "nothing was running" in cli(["stack", "down"]).err


def test_data_as_table_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"id": "a", "rate": 1234.5, "done": True, "eta_s": None, "targets": {"sent": 1}}]
    Output().emit_rows(rows, ["id", "rate", "done", "eta_s", "targets"])
    assert capsys.readouterr().out.splitlines() == [
        "id  targets/s  done  ETA  targets",
        "a       1,234  yes     -  sent=1 ",
    ]
    Output(as_json=True).emit_rows(rows, ["id"])
    assert json.loads(capsys.readouterr().out) == rows
    Output().emit_record({"id": "[b]", "targets": {"sent": 1}})
    assert capsys.readouterr().out.split() == ["id", "[b]", "targets.sent", "1"]


def test_logs_as_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(LogSettings(level="warning", json_lines=True))  # type: ignore[call-arg]  # by the field's name
    logging.getLogger("fairlane.test").info("unseen")
    logging.getLogger("fairlane.test").warning("lane %s", "x", extra={"lane": "x"})
    line = json.loads(capsys.readouterr().err)
    assert {"level": "warning", "logger": "fairlane.test", "message": "lane x", "lane": "x"}.items() <= line.items()
    assert line["time"].endswith("Z")


def test_logs_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(LogSettings(level="info"))
    logging.getLogger("fairlane.test").info("hello")
    assert capsys.readouterr().err.endswith("INFO    fairlane.test: hello\n")
