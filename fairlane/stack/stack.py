"""The local stack as a whole: up, down, status."""

import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from backends.settings import PulsarSettings
from fairlane.stack import distribution, launch, lock, processes, pulsar_server, redis_server
from fairlane.stack import state as states
from fairlane.stack.addresses import StackAddresses, addresses_of
from fairlane.stack.errors import AlreadyRunning
from fairlane.stack.homes import Home, default_cache, default_home
from fairlane.stack.launch import Progress, StackOptions
from fairlane.stack.state import ServerState, StackState

PULSAR_STOP_S = 40.0
REDIS_STOP_S = 15.0


@dataclass(frozen=True, kw_only=True)
class ServerStatus:
    """One server as `stack status` shows it; everything but the name is None where it is not running."""

    name: str
    running: bool
    pid: int | None = None
    program: str | None = None
    version: str | None = None
    ports: dict[str, int] = field(default_factory=dict)
    memory_bytes: int | None = None


@dataclass(frozen=True)
class StackStatus:
    """State of the local stack."""

    running: bool
    """Whether both servers are alive and `stack up` completed."""
    home: Path
    logs: Path
    servers: tuple[ServerStatus, ...]
    addresses: StackAddresses | None
    """The addresses in force, also of a server that has ended.

    None if the stack was never started or was stopped by `stack down`.
    """


def quiet(message: str) -> None:
    """Ignore a progress message."""


class LocalStack:
    """A private Pulsar and Redis under one directory. They outlive the program that started them."""

    def __init__(
        self,
        home: Path | None = None,
        options: StackOptions = StackOptions(),
        *,
        cache: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Set up a stack without starting it.

        `home` and `cache` default to the user's (see homes.py). `env`: the environment of the servers.
        """
        self._env = dict(os.environ if env is None else env)
        self._home = Home((home or default_home(self._env)).absolute())
        self._cache = cache or default_cache(self._env)
        self._options = options

    @property
    def home(self) -> Path:
        return self._home.root

    def up(self, progress: Progress = quiet, provision_as: PulsarSettings | None = None) -> StackAddresses:
        """Start what is not running, wait until it is ready, provision it (tenant and sizes from `provision_as`).

        A server that has ended is started again on its port if that is free. Raises a StackError, PortTaken,
        AlreadyRunning or Unreachable; everything this call started is then stopped again.
        """
        self._home.make()
        with lock.exclusive(self._home.lock_file, progress):
            state = states.load(self._home.state_file).living()
            _refuse_other_ports(state, self._options)
            already = state.ready
            if not already:
                state = self._start_missing(state, progress)
            addresses = addresses_of(state)
            assert addresses is not None, "a stack that is ready has addresses"
            changed = _provision(addresses, provision_as or PulsarSettings(), progress)
            return replace(addresses, already_running=already, changed=tuple(changed))

    def down(self, progress: Progress = quiet, *, wipe: bool = False) -> bool:
        """Stop both servers; with `wipe`, delete their data and logs too. Return whether anything was running."""
        if not self._home.root.is_dir():
            return False
        with lock.exclusive(self._home.lock_file, progress):
            state = states.load(self._home.state_file).living()
            self._stop(state, progress)
            states.save(self._home.state_file, StackState())
            if wipe:
                self._wipe()
        return state.pulsar is not None or state.redis is not None

    def status(self) -> StackStatus:
        """Return what is running. Never waits and never changes anything."""
        state = states.load(self._home.state_file).living()
        servers = (_server_status("pulsar", state.pulsar), _server_status("redis", state.redis))
        return StackStatus(state.ready, self._home.root, self._home.logs, servers, addresses_of(state))

    def _start_missing(self, state: StackState, progress: Progress) -> StackState:
        """Start the servers that do not run.

        Only one stack per machine starts at a time: a chosen port is bound only seconds later, and until then looks
        free to the next one. No start waits for a download into another cache.
        """
        distribution.check_space(self._home.root, launch.NEEDED_BYTES)
        self._cache.mkdir(parents=True, exist_ok=True)
        with lock.exclusive(self._cache / "starting.lock", progress):
            if state.pulsar is None:
                launch.prepare_pulsar(self._cache, self._env, progress)
        with lock.exclusive(lock.MACHINE, progress):
            return self._start(state, progress)

    def _start(self, state: StackState, progress: Progress) -> StackState:
        before = state
        options = self._options.preferring(state.ports)
        try:
            if state.redis is None:
                redis = launch.start_redis(self._home, options, self._env, progress)
                state = self._note(state, redis=redis)
            if state.pulsar is None:
                pulsar = launch.start_pulsar(self._home, options, self._cache, self._env, progress)
                state = self._note(state, pulsar=pulsar)
            self._wait(state, progress)
        except BaseException:
            self._undo(before)
            raise
        return self._note(state, ready=True, ports=state.server_ports())

    def _wait(self, state: StackState, progress: Progress) -> None:
        pulsar, redis = state.pulsar, state.redis
        assert pulsar is not None, "both were started"
        assert redis is not None, "both were started"
        logs = self._home.logs
        timeout_s = self._options.ready_timeout_s
        progress("waiting for Redis")
        ready: Callable[[], bool] = lambda: redis_server.is_ready(redis.ports["redis"])  # noqa: E731
        launch.wait_ready(redis, ready, (logs / "redis-console.log", logs / "redis.log"), timeout_s)
        progress("waiting for Pulsar")
        ready = lambda: pulsar_server.is_ready(pulsar.ports["web"])  # noqa: E731
        launch.wait_ready(pulsar, ready, (logs / "pulsar-console.log", logs / "pulsar.log"), timeout_s)

    def _note(self, state: StackState, **changes: Any) -> StackState:
        changed = state.model_copy(update=changes)
        states.save(self._home.state_file, changed)
        return changed

    def _undo(self, before: StackState) -> None:
        now = states.load(self._home.state_file).living()
        fresh = now.model_copy(
            update={
                "pulsar": None if before.pulsar else now.pulsar,
                "redis": None if before.redis else now.redis,
            }
        )
        self._stop(fresh, quiet)
        states.save(self._home.state_file, before)

    def _stop(self, state: StackState, progress: Progress) -> None:
        for name, server, deadline_s in (
            ("Pulsar", state.pulsar, PULSAR_STOP_S),
            ("Redis", state.redis, REDIS_STOP_S),
        ):
            if server is None:
                continue
            progress(f"stopping {name}")
            if not processes.stop(server.pid, server.birth, deadline_s):
                progress(f"{name} did not stop within {deadline_s:.0f} s and was killed; its data is safe on disk")

    def _wipe(self) -> None:
        for part in (self._home.pulsar, self._home.redis, self._home.logs):
            shutil.rmtree(part, ignore_errors=True)
        with suppress(FileNotFoundError):
            self._home.state_file.unlink()


def _refuse_other_ports(state: StackState, options: StackOptions) -> None:
    """Raise AlreadyRunning if the options request another port for a server that runs."""
    for what, server, name, port in (
        ("Pulsar", state.pulsar, "broker", options.pulsar_port),
        ("Pulsar's REST", state.pulsar, "web", options.pulsar_web_port),
        ("Redis", state.redis, "redis", options.redis_port),
    ):
        if server is not None and port not in (None, server.ports[name]):
            raise AlreadyRunning(
                f"{what} of the local stack runs on port {server.ports[name]}, so it cannot get port {port}.",
                "Run `fairlane stack down` first, or leave the port out.",
            )


def _server_status(name: str, server: ServerState | None) -> ServerStatus:
    if server is None:
        return ServerStatus(name=name, running=False)
    memory = processes.resident_bytes(server.pid)
    return ServerStatus(
        name=name,
        running=True,
        pid=server.pid,
        program=server.program,
        version=server.version,
        ports=server.ports,
        memory_bytes=memory,
    )


def _provision(addresses: StackAddresses, settings: PulsarSettings, progress: Progress) -> list[str]:
    """Provision Pulsar. A broker that has just started, above all after a kill, answers some requests with errors."""
    try:
        from backends.pulsar.provision import provision
    except ModuleNotFoundError:
        return []
    progress("provisioning")
    here = {"url": addresses.pulsar_url, "admin_url": addresses.pulsar_admin_url}
    return launch.once_reached(lambda: provision(settings.model_copy(update=here)))
