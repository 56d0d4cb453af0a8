"""A Redis that wants a password: given, it works; left out or wrong, one line says so and never repeats it."""

import json
from collections.abc import Iterator

import pytest

from benchmarks import redis_server
from fairlane.cli.base import exit_codes
from tests.unit.command_line import CommandLine

PASSWORD = 'hush "quoted" #1'


@pytest.fixture
def locked_redis() -> Iterator[str]:
    """Address of a server that answers only to those who know the password."""
    with redis_server.running("--requirepass", PASSWORD) as server:
        yield server.url


@pytest.mark.parametrize("command", ["task list", "task show x", "worker list", "signals", "registry status"])
def test_every_command_says_it_with_the_address(
    command: str, locked_redis: str, monkeypatch: pytest.MonkeyPatch, cli: CommandLine
) -> None:
    """Some begin with a call that is too long for somebody without a password."""
    monkeypatch.setenv("FAIRLANE_REDIS_URL", locked_redis)
    printed = cli(command.split(), exit_codes.UNREACHABLE).err
    assert f"Redis at {locked_redis} (from the environment) requires a password and none is set." in printed
    assert "FAIRLANE_REDIS_PASSWORD" in printed


def test_doctor_says_it(locked_redis: str, monkeypatch: pytest.MonkeyPatch, cli: CommandLine) -> None:
    """Pulsar is not there in this test: only what is said of Redis is looked at."""
    monkeypatch.setenv("FAIRLANE_PULSAR_ADMIN_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("FAIRLANE_REDIS_URL", locked_redis)
    found = cli(["doctor", "-o", "json"], exit_codes.FAILURE).out
    assert any("assword" in line["what"] + line["fix"] for line in json.loads(found) if line["level"] == "fail")

    monkeypatch.setenv("FAIRLANE_REDIS_PASSWORD", PASSWORD)
    found = cli(["doctor", "-o", "json"], exit_codes.FAILURE).out
    assert any(line["level"] == "ok" and "answers" in line["what"] for line in json.loads(found))
    assert "hush" not in found
