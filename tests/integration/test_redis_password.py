"""A Redis that wants a password: given, it works; left out or wrong, one line says so and never repeats it."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlane.cli import main
from fairlane.cli.base import exit_codes
from fairlane.stack import launch, ports, processes, redis_server
from fairlane.stack.homes import Home
from fairlane.stack.state import ServerState

PASSWORD = 'hush "quoted" #1'


@pytest.fixture
def locked_redis(tmp_path: Path) -> Iterator[str]:
    """Address of a server that answers only to those who know the password."""
    home = Home(tmp_path / "locked redis")
    home.make()
    port = ports.choose(16_379)
    program = redis_server.find(os.environ)
    conf = redis_server.write_conf(home, port, PASSWORD)
    log = home.logs / "console.log"
    pid = processes.start_detached([str(program.path), str(conf)], home.redis, log, os.environ)
    birth = processes.birth_of(pid) or "gone"
    server = ServerState(pid=pid, birth=birth, program="redis", version=program.version, ports={"redis": port})
    launch.wait_ready(server, lambda: redis_server.is_ready(port, PASSWORD), (log,), 20)
    yield f"redis://127.0.0.1:{port}/0"
    processes.stop(pid, birth, 10)


@pytest.mark.parametrize("command", ["task list", "task show x", "worker list", "signals", "registry status"])
def test_every_command_says_it_with_the_address(
    command: str, locked_redis: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Some begin with a call that is too long for somebody without a password."""
    monkeypatch.setenv("FAIRLANE_REDIS_URL", locked_redis)
    assert main.run(command.split()) == exit_codes.UNREACHABLE
    printed = capsys.readouterr().err
    assert f"Redis at {locked_redis} (from the environment) requires a password and none is set." in printed
    assert "FAIRLANE_REDIS_PASSWORD" in printed


def test_doctor_says_it(locked_redis: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Pulsar is not there in this test: only what is said of Redis is looked at."""
    monkeypatch.setenv("FAIRLANE_PULSAR_ADMIN_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("FAIRLANE_REDIS_URL", locked_redis)
    assert main.run(["doctor", "-o", "json"]) == exit_codes.FAILURE
    found = capsys.readouterr().out
    assert any("assword" in line["what"] + line["fix"] for line in json.loads(found) if line["level"] == "fail")

    monkeypatch.setenv("FAIRLANE_REDIS_PASSWORD", PASSWORD)
    main.run(["doctor", "-o", "json"])
    found = capsys.readouterr().out
    assert any(line["level"] == "ok" and "answers" in line["what"] for line in json.loads(found))
    assert "hush" not in found
