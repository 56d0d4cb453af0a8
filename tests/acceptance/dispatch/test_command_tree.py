"""Every command explains itself, and what needs no server works without one."""

from collections.abc import Iterator

import click
import pytest

from fairlane.cli.main import cli
from tests.acceptance.conftest import CommandLine

PROMISED = {
    *("stack up", "stack down", "stack status", "provision", "doctor", "demo", "simulate", "top", "signals"),
    *("estate show", "estate guard", "estate capture", "config show", "worker", "worker list"),
    *(f"registry {name}" for name in ("rebuild", "status", "snapshot", "adopt")),
    *("journal run", "journal compact", "tune producer", "tune cluster", "fake fcm", "fake apns"),
    *(f"task {name}" for name in ("submit", "list", "show", "wait", "failures", "pause", "resume", "cancel", "set")),
    "task outcomes",
    *(f"dead-letters {name}" for name in ("list", "show", "replay", "drop")),
    *("invalid export", "task edit", "task why", "capacity show", "capacity set"),
    *(f"tier {name}" for name in ("show", "set", "sharing")),
    *(f"quota {name}" for name in ("list", "cap", "join", "leave")),
    *(f"channel {name}" for name in ("list", "show", "check", "cap", "pause", "resume")),
    *(f"app {name}" for name in ("list", "show", "cap", "weight", "limit", "policy")),
    *("key create", "key list", "key revoke", "audit list"),
}
WITH_OUTPUT = {
    *("key list", "audit list", "app policy"),
    *("estate show", "stack status", "doctor", "config show", "worker list", "tier show", "capacity show"),
    *(f"task {name}" for name in ("submit", "list", "show", "wait", "failures", "outcomes", "why")),
    *(f"task {name}" for name in ("pause", "resume", "cancel", "set", "edit")),
    *(f"registry {name}" for name in ("status", "snapshot", "rebuild", "adopt")),
    *("signals", "channel list", "channel show", "app list", "app show", "capacity set", "tier set"),
    *("journal run", "journal compact", "tune producer", "tune cluster", "fake fcm", "fake apns"),
    *(f"dead-letters {name}" for name in ("list", "show", "replay", "drop")),
}


def commands(group: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Every command below a group, groups included, by its words."""
    if path:
        yield " ".join(path), group
    if isinstance(group, click.Group):
        with click.Context(group) as context:
            for name in group.list_commands(context):
                found = group.get_command(context, name)
                assert found is not None
                yield from commands(found, (*path, name))


ALL = dict(commands(cli))


def test_every_promised_command_is_there() -> None:
    assert set(ALL) >= PROMISED


@pytest.mark.parametrize("words", sorted(ALL))
def test_every_command_and_option_says_what_it_does(words: str) -> None:
    command = ALL[words]
    assert command.help
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help, f"{words} {option.name}"
    with click.Context(command, info_name=words) as context:
        shown = command.get_help(context)
    assert shown.startswith(f"Usage: {words}")


@pytest.mark.parametrize("words", sorted(WITH_OUTPUT))
def test_what_prints_data_prints_json_too(words: str) -> None:
    [option] = [param for param in ALL[words].params if "--output" in param.opts]
    assert isinstance(option.type, click.Choice)
    assert list(option.type.choices) == ["table", "json"]
    assert "-o" in option.opts


def test_help_and_version_from_a_shell(alone: CommandLine) -> None:
    result = alone("--help")
    assert (result.code, result.err) == (0, "")
    assert "Exit codes" in result.out
    assert alone("--version").out.startswith("fairlane 0.")
    result = alone("task", "submit", "--help")
    assert (result.code, result.err) == (0, "")
    for option in ("id", "app", "tier", "channel", "title", "body", "targets", "chunk", "ttl", "at"):
        assert f"--{option} " in result.out


def test_without_servers_every_command_says_what_is_missing(alone: CommandLine) -> None:
    result = alone("--redis-url", "redis://127.0.0.1:1/0", "task", "list")
    assert (result.code, result.out) == (4, "")
    assert "Redis at redis://127.0.0.1:1/0 (from the command line) cannot be reached" in result.err
    assert "Traceback" not in result.err
    result = alone("stack", "status", "-o", "json")
    assert result.data["running"] is False


def test_settings_show_their_source_and_no_secret(alone: CommandLine) -> None:
    alone.file("fairlane.toml", '[worker]\nprocesses = 3\n[pulsar]\ntoken = "hush-token"\n')
    env = {"FAIRLANE_REDIS_PASSWORD": "hush-word", "FAIRLANE_HTTP_HEADERS": '{"Authorization": "hush-key"}'}
    arguments = ("--redis-url", "rediss://user:hush-url@there:1/0", "config", "show")
    result = alone(*arguments, "-o", "json", env=env)
    assert (result.code, result.err) == (0, "")
    rows = {row["name"]: row for row in result.data}
    assert rows["worker.processes"]["value"] == 3
    assert "fairlane.toml" in rows["worker.processes"]["source"]
    assert rows["redis.url"]["source"] == "option"
    assert "there:1" in rows["redis.url"]["value"]
    assert "FAIRLANE_REDIS_PASSWORD" in rows["redis.password"]["source"]
    assert rows["pulsar.namespaces"]["source"] == "default"
    table = alone(*arguments, env=env)
    assert "hush" not in result.out + table.out + table.err
