"""Which servers commands use: those that are configured, or those of the local stack until `stack down`; never others
that happen to listen."""

import json
import os
import subprocess
from contextlib import ExitStack
from errno import ENOSPC
from pathlib import Path
from unittest.mock import Mock

import pytest

from benchmarks.redis_server import free_port
from dispatcher.model.errors import InvalidInput, NotConfigured
from fairlane import PushClient, Settings
from fairlane.cli.base import exit_codes
from fairlane.cli.main import run
from fairlane.local_stack import birth_of
from lab.stack import lock, state
from lab.stack.errors import AlreadyRunning
from lab.stack.homes import Home
from lab.stack.launch import StackOptions
from lab.stack.stack import LocalStack
from lab.stack.state import ServerState, StackPorts, StackState
from tests.unit.command_line import CommandLine

PORTS = {"broker": 1, "web": 2, "bookie": 3, "redis": 4}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No fairlane.toml of the developer's."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def home() -> Path:
    return Path(os.environ["FAIRLANE_HOME"])


def server(*, alive: bool) -> ServerState:
    """A server whose process is this one, or none."""
    birth = (birth_of(os.getpid()) or "") if alive else "another boot:1"
    return ServerState(pid=os.getpid(), birth=birth, program="x", version="1", ports=PORTS)


def started(home: Path, *, pulsar: bool, redis: bool) -> None:
    """Write the state after a `stack up`; of each server, whether it is still there."""
    Home(home).make()
    ports = StackPorts(broker=1, web=2, redis=4)
    stored = StackState(pulsar=server(alive=pulsar), redis=server(alive=redis), ready=True, ports=ports)
    state.save(Home(home).state_file, stored)


# ---------------------------------------------------------------- nothing configured
@pytest.mark.parametrize(
    "command",
    [
        "task list",
        "task show x",
        "task submit --app a --body b --channel null --targets -",
        "signals",
        "capacity set 5",
        "worker",
        "worker --processes 2",
        "worker list",
        "registry status",
        "provision",
        "estate show",
        "top",
        "backlog snapshot --once",
    ],
)
def test_with_nothing_configured_and_no_stack_commands_refuse_and_say_the_way_out(
    command: str, cli: CommandLine
) -> None:
    printed = cli(command.split(), exit_codes.USAGE).err
    assert "not configured" in printed
    assert "`fairlane stack up`" in printed


def test_doctor_says_so_too_and_fails(cli: CommandLine) -> None:
    failed = [
        line for line in json.loads(cli(["doctor", "-o", "json"], exit_codes.FAILURE).out) if line["level"] == "fail"
    ]
    assert [line["what"].split(" is not")[0] for line in failed] == ["Pulsar", "Redis"]
    assert all("fairlane stack up" in line["fix"] for line in failed)


@pytest.mark.parametrize("command", ["config show", "stack status", "stack down", "task --help", "--version"])
def test_what_needs_no_server_works(command: str) -> None:
    assert run(command.split()) in (exit_codes.OK, exit_codes.FAILURE)


def test_python_raises_the_same() -> None:
    with pytest.raises(NotConfigured, match="fairlane stack up"):
        PushClient.connect(Settings())


def test_with_redis_alone_tasks_can_be_looked_at_and_not_submitted(
    monkeypatch: pytest.MonkeyPatch, cli: CommandLine
) -> None:
    monkeypatch.setenv("FAIRLANE_REDIS_URL", "redis://127.0.0.1:1/0")
    assert (
        "redis://127.0.0.1:1/0 (from the environment) cannot be reached"
        in cli(["task", "list"], exit_codes.UNREACHABLE).err
    )
    printed = cli(["worker"], exit_codes.USAGE).err
    assert "Pulsar is not configured: pulsar.url and pulsar.admin_url are not set" in printed
    assert "FAIRLANE_REDIS_URL" not in printed


def test_an_unknown_setting_in_python_is_named_in_our_words() -> None:
    with pytest.raises(InvalidInput, match="There is no setting redis_url"):
        Settings(redis_url="redis://there:1/0")


# ---------------------------------------------------------------- sources
def test_errors_say_where_an_address_comes_from(home: Path, monkeypatch: pytest.MonkeyPatch, cli: CommandLine) -> None:
    port = free_port()
    started(home, pulsar=True, redis=True)
    url = f"redis://127.0.0.1:{port}/0"

    assert (
        "redis://127.0.0.1:4/0 (of the local stack) cannot be reached"
        in cli(["task", "list"], exit_codes.UNREACHABLE).err
    )
    Path("fairlane.toml").write_text(f'[redis]\nurl = "{url}"\n')
    assert f"{url} (from fairlane.toml) cannot be reached" in cli(["task", "list"], exit_codes.UNREACHABLE).err
    monkeypatch.setenv("FAIRLANE_REDIS_URL", url)
    assert f"{url} (from the environment) cannot be reached" in cli(["task", "list"], exit_codes.UNREACHABLE).err
    assert (
        f"{url} (from the command line) cannot be reached"
        in cli(["--redis-url", url, "task", "list"], exit_codes.UNREACHABLE).err
    )


# ---------------------------------------------------------------- a stack with a server that has ended
def test_the_addresses_stay_in_force_when_a_server_has_ended(home: Path, cli: CommandLine) -> None:
    """Whatever answers on its port now, it is not ours, and is not asked."""
    started(home, pulsar=True, redis=False)
    assert Settings().redis.url == "redis://127.0.0.1:4/0"
    for command in (["task", "show", "x"], ["worker"], ["worker", "--processes", "2"]):
        printed = cli(command, exit_codes.UNREACHABLE).err
        assert "Redis of the local stack (redis://127.0.0.1:4/0) is not running. Run `fairlane stack up`." in printed


def test_after_a_reboot_the_addresses_are_still_those_of_the_stack(home: Path) -> None:
    started(home, pulsar=False, redis=False)
    settings = Settings()
    assert (settings.pulsar.url, settings.pulsar.admin_url) == ("pulsar://127.0.0.1:1", "http://127.0.0.1:2")
    assert not LocalStack(home).status().running


def test_stack_down_lets_go_of_the_addresses_and_never_kills_a_stale_pid(home: Path) -> None:
    """The pid in the state file now belongs to another process: this one, which survives the test."""
    started(home, pulsar=False, redis=False)
    assert run(["stack", "down"]) == exit_codes.OK
    assert Settings().redis.url is None


def test_a_failed_start_keeps_the_addresses(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started(home, pulsar=False, redis=False)
    monkeypatch.setattr("lab.stack.launch.prepare_pulsar", lambda *_: None)
    monkeypatch.setattr("lab.stack.launch.start_redis", Mock(side_effect=InvalidInput("no")))
    with pytest.raises(InvalidInput):
        LocalStack(home).up()
    assert Settings().redis.url == "redis://127.0.0.1:4/0"


def full(*_: object) -> None:
    raise OSError(ENOSPC, "No space left on device")


def test_a_server_that_cannot_be_noted_is_stopped(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        birth = birth_of(process.pid)
        assert birth is not None
        redis = ServerState(pid=process.pid, birth=birth, program="redis", version="7", ports={"redis": 4})
        monkeypatch.setattr("lab.stack.launch.prepare_pulsar", lambda *_: None)
        monkeypatch.setattr("lab.stack.launch.start_redis", lambda *_: redis)
        monkeypatch.setattr("lab.stack.stored.replace_durably", full)
        try:
            with pytest.raises(OSError, match="No space left"):
                LocalStack(home).up()
            assert not redis.alive
        finally:
            process.kill()


def test_on_a_full_disk_the_data_can_be_deleted(home: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    started(home, pulsar=False, redis=False)
    (home / "pulsar").mkdir(exist_ok=True)
    monkeypatch.setattr("lab.stack.stored.replace_durably", full)
    assert "data deleted" in cli(["stack", "down", "--wipe"]).err
    assert not (home / "pulsar").exists()
    assert Settings().redis.url is None


def test_a_wipe_names_what_it_keeps_since_that_may_be_of_another_pulsar(home: Path, cli: CommandLine) -> None:
    started(home, pulsar=False, redis=False)
    (home / "captures").mkdir()
    assert f"kept in {home}, as they may be of another Pulsar: captures" in " ".join(
        cli(["stack", "down", "--wipe"]).err.split()
    )
    assert (home / "captures").is_dir()


def test_data_behind_a_link_to_another_disk_is_deleted_too(home: Path, tmp_path: Path, cli: CommandLine) -> None:
    started(home, pulsar=False, redis=False)
    disk = tmp_path / "disk"
    disk.mkdir()
    (disk / "metadata").touch()
    (home / "pulsar").rmdir()
    (home / "pulsar").symlink_to(disk)
    assert "data deleted" in cli(["stack", "down", "--wipe"]).err
    assert list(disk.iterdir()) == []
    Home(home).make()


def test_data_that_cannot_be_deleted_is_not_said_to_be(
    home: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(home, pulsar=False, redis=False)
    monkeypatch.setattr("shutil.rmtree", lambda *_, **__: None)
    assert "could not be deleted completely" in cli(["stack", "down", "--wipe"], exit_codes.FAILURE).err


# ---------------------------------------------------------------- ports
@pytest.mark.parametrize("option", ["--pulsar-port", "--pulsar-web-port", "--redis-port"])
def test_another_port_for_a_server_that_runs_is_refused(option: str, home: Path, cli: CommandLine) -> None:
    started(home, pulsar=True, redis=True)
    printed = cli(["stack", "up", option, "7777"], exit_codes.REFUSED).err
    assert "so it cannot get port 7777" in printed
    assert "fairlane stack down" in printed


def test_a_server_that_ended_may_get_another_port(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started(home, pulsar=True, redis=False)
    start = Mock(side_effect=AlreadyRunning("enough seen"))
    monkeypatch.setattr("lab.stack.launch.start_redis", start)
    with pytest.raises(AlreadyRunning, match="enough seen"):
        LocalStack(home, StackOptions(redis_port=7777)).up()
    options = start.call_args.args[1]
    assert (options.redis_port, options.usual) == (7777, StackPorts(broker=1, web=2, redis=4))


def test_a_start_waits_for_one_with_another_home_and_another_cache(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise both choose the same free ports."""
    monkeypatch.setattr(lock, "MACHINE", tmp_path)
    monkeypatch.setattr("lab.stack.launch.prepare_pulsar", lambda *_: None)
    monkeypatch.setattr("lab.stack.launch.start_redis", Mock(side_effect=InvalidInput("no")))
    reported: list[str] = []
    with ExitStack() as other:
        other.enter_context(lock.exclusive(tmp_path, print))

        def note(message: str) -> None:
            reported.append(message)
            other.close()

        with pytest.raises(InvalidInput):
            LocalStack(home, cache=tmp_path / "own cache").up(note)
    assert reported == ["waiting for another `fairlane stack` command to end"]


@pytest.mark.parametrize(
    "text", ["", '{"pulsar"', "[]", '{"ports": {"broker": "x"}}', '{"estate": {"shape": 5}}', "\0"]
)
def test_a_damaged_state_file_is_named_with_what_to_do(text: str, home: Path, cli: CommandLine) -> None:
    Home(home).make()
    Home(home).state_file.write_text(text)
    printed = cli(["capacity", "show"], exit_codes.FAILURE).err
    assert f"{Home(home).state_file} cannot be read" in printed
    assert "delete the file" in printed
