"""The local stack's parts: ports, processes, state, configuration, and an error for each thing that can be missing."""

import hashlib
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from backends.redis.faults import is_new_enough
from dispatcher.model.errors import Refused, Unreachable
from fairlane.local_stack import birth_of, cache_folder, home_folder, is_alive
from lab.stack import distribution, java, launch, ports, processes, pulsar_conf, pulsar_server, redis_server, state
from lab.stack.errors import DownloadFailed, JavaUnusable, NoSpace, PortTaken, ServerDied, StackError
from lab.stack.homes import Home
from lab.stack.launch import StackOptions, once_reached
from lab.stack.stack import LocalStack, quiet
from lab.stack.state import ServerState, StackState


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return path


# ---------------------------------------------------------------- ports
def test_a_taken_port_is_passed_over(taken: int) -> None:
    assert not ports.is_free(taken)
    assert ports.choose(taken) > taken


def test_a_free_port_is_kept_unless_promised(taken: int) -> None:
    free = ports.choose(taken)
    assert ports.choose(free) == free
    assert ports.choose(free, avoid={free}) > free


def test_a_port_asked_for_by_number_must_be_free(taken: int) -> None:
    with pytest.raises(PortTaken, match=f"Port {taken} for Redis is taken") as caught:
        ports.require(taken, "Redis")
    assert caught.value.exit_code == 5
    assert caught.value.next_step


@pytest.fixture
def start_pulsar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], ServerState]:
    """Start Pulsar, but for its process."""
    home = Home(tmp_path)
    home.make()
    monkeypatch.setattr(java, "find", lambda _env: tmp_path / "java")
    monkeypatch.setattr(distribution, "ensure", lambda *_: tmp_path / "pulsar")
    monkeypatch.setattr(pulsar_server, "command", lambda *_: [])
    monkeypatch.setattr(processes, "start_detached", lambda *_: os.getpid())
    return lambda: launch.start_pulsar(home, StackOptions(), tmp_path, {}, quiet)


def test_data_that_is_bound_to_a_taken_port_is_not_started_elsewhere(
    tmp_path: Path, taken: int, start_pulsar: Callable[[], ServerState]
) -> None:
    pulsar_server.stored_bookie_port(Home(tmp_path)).save(taken)
    with pytest.raises(PortTaken, match=f"Port {taken}.* data is bound") as caught:
        start_pulsar()
    assert "--wipe" in caught.value.next_step


def test_a_storage_port_that_is_damaged_says_so(tmp_path: Path, start_pulsar: Callable[[], ServerState]) -> None:
    pulsar_server.stored_bookie_port(Home(tmp_path)).path.write_bytes(b"")
    with pytest.raises(StackError, match="bookie-port cannot be read") as caught:
        start_pulsar()
    assert "--wipe" in caught.value.next_step


def test_the_storage_port_is_kept(start_pulsar: Callable[[], ServerState]) -> None:
    assert start_pulsar().ports["bookie"] == start_pulsar().ports["bookie"]


# ---------------------------------------------------------------- processes
def server(pid: int, birth: str) -> ServerState:
    return ServerState(pid=pid, birth=birth, program="a server", version="1", ports={})


def started(folder: Path, *command: str) -> ServerState:
    """Start a process that writes to the file `log` of the folder."""
    pid = processes.start_detached([*command], folder, folder / "log", os.environ)
    return server(pid, birth_of(pid) or "gone")


def test_a_process_is_known_by_its_birth_and_stops_when_asked(tmp_path: Path) -> None:
    sleeper = started(tmp_path, "sleep", "60")
    assert sleeper.alive
    assert not is_alive(sleeper.pid, sleeper.birth + "0")
    assert (processes.resident_bytes(sleeper.pid) or 0) > 0
    assert processes.stop(sleeper.pid, sleeper.birth, 10)
    assert not sleeper.alive


def test_what_does_not_stop_is_killed(tmp_path: Path) -> None:
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    stubborn, log = started(tmp_path, sys.executable, "-c", code), tmp_path / "log"
    launch.wait_ready(stubborn, lambda: "up" in log.read_text(), (log,), 20)
    assert not processes.stop(stubborn.pid, stubborn.birth, 0.1)
    assert not stubborn.alive


# ---------------------------------------------------------------- state
def test_state_survives_and_is_replaced_whole(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    assert state.load(file) == StackState()
    written = StackState(redis=server(1, "b"))
    state.save(file, written)
    assert state.load(file) == written
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


def test_a_broken_state_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text("{")
    with pytest.raises(StackError, match=r"state\.json"):
        state.load(tmp_path / "state.json")


def test_directories_follow_the_environment() -> None:
    assert home_folder({"FAIRLANE_HOME": "/a b"}) == Path("/a b")
    assert home_folder({"XDG_DATA_HOME": "/data"}) == Path("/data/fairlane")
    assert cache_folder({"XDG_CACHE_HOME": "/cache"}) == Path("/cache/fairlane")
    assert cache_folder({}) == Path.home() / ".cache" / "fairlane"


# ---------------------------------------------------------------- what may be missing
def test_no_java(tmp_path: Path) -> None:
    with pytest.raises(JavaUnusable, match="not found") as caught:
        java.find({"PATH": str(tmp_path)})
    assert "openjdk-17" in caught.value.next_step


@pytest.mark.parametrize(
    ("message", "version"),
    [('openjdk version "11.0.2"', 11), ('java version "1.8.0_402"', 8), ('openjdk version "16"', 16)],
)
def test_java_too_old(message: str, version: int, tmp_path: Path) -> None:
    script(tmp_path / "java", f"echo '{message}' >&2\n")
    with pytest.raises(JavaUnusable, match=f"is Java {version}; Pulsar needs 17"):
        java.find({"PATH": str(tmp_path)})


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    program = script(tmp_path / "home" / "bin" / "java", "echo 'openjdk version \"21.0.1\" 2023' >&2\n")
    found = java.find({"JAVA_HOME": str(tmp_path / "home"), "PATH": "/usr/bin"})
    assert found == java.Java(program, 21)


def test_no_maven_and_nothing_cached(tmp_path: Path, plenty: None) -> None:
    with pytest.raises(DownloadFailed, match="Maven") as caught:
        distribution.ensure(tmp_path / "cache", {"PATH": str(tmp_path)}, quiet)
    assert "apt-get install maven" in caught.value.next_step


def test_download_impossible(tmp_path: Path, plenty: None) -> None:
    script(tmp_path / "bin" / "mvn", "echo '[ERROR] Unknown host nowhere'; exit 1\n")
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    with pytest.raises(DownloadFailed, match="Unknown host nowhere") as caught:
        distribution.ensure(tmp_path / "cache", {"PATH": path}, quiet)
    assert "FAIRLANE_PULSAR_URL" in caught.value.next_step
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_damaged_download_is_refused(tmp_path: Path) -> None:
    archive = tmp_path / "x.tar.gz"
    archive.write_bytes(b"whole")
    distribution.verify(archive, hashlib.sha512(b"whole").hexdigest())
    archive.write_bytes(b"hole")
    with pytest.raises(DownloadFailed, match="damaged"):
        distribution.verify(archive)


def test_a_cached_distribution_needs_neither_network_nor_maven(tmp_path: Path) -> None:
    ready = tmp_path / f"apache-pulsar-{distribution.VERSION}"
    ready.mkdir()
    assert distribution.ensure(tmp_path, {}, quiet) == ready


@pytest.fixture
def plenty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk with room, whatever the machine's is like."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=10**13))


def test_too_little_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=1))
    with pytest.raises(NoSpace, match="free on the disk") as caught:
        LocalStack(tmp_path).up()
    assert "FAIRLANE_HOME" in caught.value.next_step


@pytest.mark.parametrize(
    ("last_words", "error", "message"),
    [
        ("Address in use", ServerDied, "Address in use"),
        ("write: No space left on device", NoSpace, "disk is full"),
        ("# Bad file format reading the append only file appendonly.aof.1.base.rdb", ServerDied, "down --wipe"),
        ("# Can not handle RDB format version 80", ServerDied, "a newer or another server wrote"),
    ],
)
def test_a_server_that_dies_tells_its_last_words(
    last_words: str, error: type[StackError], message: str, tmp_path: Path
) -> None:
    dying = started(tmp_path, "sh", "-c", f"echo '{last_words}'; read x")
    with pytest.raises(error, match=message):
        launch.wait_ready(dying, lambda: False, (tmp_path / "log",), 20)


def test_a_server_that_is_never_ready_is_given_up(tmp_path: Path) -> None:
    this = server(os.getpid(), birth_of(os.getpid()) or "gone")
    with pytest.raises(ServerDied, match="not ready after 0 s"):
        launch.wait_ready(this, lambda: False, (tmp_path / "log",), 0)


def test_a_server_whose_port_another_program_answers_on_is_not_ready(tmp_path: Path, taken: int) -> None:
    """Both chose the port while it was free; the other one was quicker, and passes for ours until ours has ended."""
    ours = started(tmp_path, "sleep", "60").model_copy(update={"ports": {"web": taken}})
    try:
        with pytest.raises(ServerDied, match="not ready"):
            launch.wait_ready(ours, lambda: True, (tmp_path / "log",), 0)
    finally:
        processes.stop(ours.pid, ours.birth, 10)


def test_who_listens_on_a_port_is_known(taken: int) -> None:
    assert processes.listens(os.getpid(), taken)
    assert not processes.listens(os.getppid(), taken)
    assert not processes.listens(os.getpid(), ports.choose(taken))


# ---------------------------------------------------------------- programs and configuration
def test_an_old_redis_is_passed_over_for_the_shipped_one(tmp_path: Path) -> None:
    script(tmp_path / "redis-server", "echo 'Redis server v=6.2.7 sha=0'\n")
    found = redis_server.find({"PATH": f"{tmp_path}:/bin"})
    assert found.path.name == "valkey-server"
    assert found.usable


@pytest.mark.parametrize(
    ("version", "is_new"),
    [("7.0.15", True), ("10.0", True), ("6.2.7", False), ("8.0-rc1", True), ("unstable", False), ("", False)],
)
def test_a_version_of_redis_is_new_enough_or_not(version: str, is_new: bool) -> None:
    assert is_new_enough(version) == is_new


def test_a_new_redis_on_the_path_is_used(tmp_path: Path) -> None:
    program = script(tmp_path / "redis-server", "echo 'Redis server v=7.0.15 sha=0'\n")
    assert redis_server.find({"PATH": str(tmp_path)}) == redis_server.RedisProgram(program, "7.0.15")


def test_redis_configuration_is_quoted_and_private(tmp_path: Path) -> None:
    home = Home(tmp_path / "with space")
    home.make()
    conf = redis_server.write_conf(home, 1234, password='say "x"')
    assert f'dir "{home.redis}"' in conf.read_text()
    assert 'requirepass "say \\"x\\""' in conf.read_text()
    assert conf.stat().st_mode & 0o077 == 0


@pytest.mark.skipif(shutil.which("java") is None, reason="Java is not installed")
def test_java_opens_files_whose_path_has_other_letters_than_english_ones_in_any_locale() -> None:
    env = pulsar_server.environment({**os.environ, "LC_ALL": "C"})
    done = subprocess.run(
        ["java", "-XshowSettings:properties", "-version"], env=env, capture_output=True, text=True, check=True
    )
    assert "sun.jnu.encoding = UTF-8" in done.stderr


def test_broker_settings_replace_the_shipped_ones() -> None:
    shipped = "# a comment\nbrokerServicePort=6650\nkept=1"  # no newline at its end, like the real one
    merged = pulsar_conf.merged(shipped, {"brokerServicePort": "7000", "new": "x"}).splitlines()
    assert "brokerServicePort=6650" not in merged
    assert {"kept=1", "brokerServicePort=7000", "new=x"} <= set(merged)


def test_a_broker_that_is_not_ready_is_asked_again() -> None:
    """One that has just started answers some requests with errors."""
    provision = Mock(side_effect=[Unreachable("503"), Unreachable("503"), "provisioned"])
    assert once_reached(provision) == "provisioned"


def test_a_broker_that_stays_unreachable_is_reported() -> None:
    with pytest.raises(Unreachable):
        once_reached(Mock(side_effect=Unreachable("503")), within_s=0.0)


def test_a_refusal_is_reported_at_once() -> None:
    provision = Mock(side_effect=Refused("not allowed"))
    with pytest.raises(Refused):
        once_reached(provision)
    provision.assert_called_once()
