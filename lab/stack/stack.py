"""The local stack as a whole: up, down, status. Its Pulsar is a standalone server or an estate."""

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from backends.settings import EstateSettings, PulsarSettings
from fairlane.local_stack import StackAddresses, addresses_in_force, cache_folder, home_folder
from lab.stack import distribution, launch, lock, processes, pulsar_server, redis_server
from lab.stack import state as states
from lab.stack.errors import AlreadyRunning, StackError
from lab.stack.estate.shape import EstateRequest
from lab.stack.estate.start import EstateStarter
from lab.stack.estate.start import stop as stop_estate
from lab.stack.homes import Home
from lab.stack.launch import Progress, StackOptions
from lab.stack.state import EstateState, ServerState, StackState

PULSAR_STOP_S = 40.0
REDIS_STOP_S = 15.0
_DOWN_FIRST = "Run `fairlane stack down` first."


@dataclass(frozen=True)
class StackStatus:
    """State of the local stack."""

    running: bool
    """Whether all servers are alive and `stack up` completed."""
    home: Path
    logs: Path
    servers: dict[str, dict[str, Any]]
    """By name: whether it is running, and if so pid, program, version, ports and memory_bytes."""
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
        self._home = Home(home_folder(self._env, home))
        self._cache = cache_folder(self._env, cache)
        self._options = options
        self._noted = StackState()
        """The servers that run, as far as this object has started them."""

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
            _refuse_another_shape(state, self._options)
            already = state.ready and not self._grows(state)
            if not already:
                state = self._start_missing(state, progress)
            addresses = addresses_in_force(self._home.root)
            assert addresses is not None, "a stack that is ready has addresses"
            changed = _provision(addresses, provision_as or PulsarSettings(), progress)
            return replace(addresses, already_running=already, changed=tuple(changed))

    def down(self, progress: Progress = quiet, *, wipe: bool = False) -> bool:
        """Stop all servers; with `wipe`, delete their data and logs too. Return whether anything was running.

        Raises StackError if some data could not be deleted.
        """
        if not self._home.root.is_dir():
            return False
        with lock.exclusive(self._home.lock_file, progress):
            state = states.load(self._home.state_file).living()
            self._stop(state, progress)
            self._home.state_file.unlink(missing_ok=True)  # which works on a full disk, too
            if wipe:
                self._wipe()
        return any((state.pulsar, state.redis, state.estate and state.estate.servers))

    def status(self) -> StackStatus:
        """Return what is running. Never waits and never changes anything."""
        state = states.load(self._home.state_file).living()
        named = {"pulsar": state.pulsar}
        if state.estate is not None:
            named = {name: state.estate.servers.get(name) for name in state.estate.shape.names()}
        servers = {name: _server_status(server) for name, server in {**named, "redis": state.redis}.items()}
        return StackStatus(state.ready, self._home.root, self._home.logs, servers, addresses_in_force(self._home.root))

    def _start_missing(self, state: StackState, progress: Progress) -> StackState:
        """Start the servers that do not run.

        Only one stack per machine starts at a time: a chosen port is bound only seconds later, and until then looks
        free to the next one. No start waits for a download into another cache.
        """
        distribution.check_space(self._home.root, launch.NEEDED_BYTES)
        self._cache.mkdir(parents=True, exist_ok=True)
        with lock.exclusive(self._cache / "starting.lock", progress):
            if not self._pulsar_runs(state):
                launch.prepare_pulsar(self._cache, self._env, progress)
        with lock.exclusive(lock.MACHINE, progress):
            return self._start(state, progress)

    def _start(self, state: StackState, progress: Progress) -> StackState:
        self._noted = before = state
        options = replace(self._options, usual=state.ports or self._options.usual)
        try:
            if state.redis is None:
                redis = launch.start_redis(self._home, options, self._env, progress)
                state = self._note(state, redis=redis)
            asked = self._asked(state)
            if asked is not None:
                state = self._start_estate(asked, state, options, progress)
            elif state.pulsar is None:
                pulsar = launch.start_pulsar(self._home, options, self._cache, self._env, progress)
                state = self._note(state, pulsar=pulsar)
            self._wait(state, progress)
        except BaseException:
            self._undo(before)
            raise
        return self._note(state, ready=True, ports=state.server_ports())

    def _start_estate(
        self, asked: EstateRequest, state: StackState, options: StackOptions, progress: Progress
    ) -> StackState:
        def note(estate: EstateState) -> None:
            self._note(state, estate=estate)

        starter = EstateStarter(self._home, self._cache, self._env, options)
        return self._note(state, estate=starter.start(asked, state.estate, note, progress))

    def _asked(self, state: StackState) -> EstateRequest | None:
        """Return the estate that is asked for, else the one in force; None for a standalone Pulsar."""
        asked, running = self._options.estate, state.estate
        if running is None:
            return asked
        return asked or EstateRequest(running.shape)

    def _grows(self, state: StackState) -> bool:
        """Return whether the estate that runs lacks servers that are asked for."""
        asked = self._asked(state)
        return asked is not None and state.estate is not None and asked.shape != state.estate.shape

    def _pulsar_runs(self, state: StackState) -> bool:
        if state.estate is not None:
            return state.estate.alive and not self._grows(state)
        return state.pulsar is not None

    def _wait(self, state: StackState, progress: Progress) -> None:
        """Wait for Redis and a standalone Pulsar; the start of an estate waits by itself."""
        pulsar, redis = state.pulsar, state.redis
        assert redis is not None, "it was started"
        logs = self._home.logs
        timeout_s = self._options.ready_timeout_s
        progress("waiting for Redis")
        ready = partial(redis_server.is_ready, redis.ports["redis"])
        launch.wait_ready(redis, ready, (logs / "redis-console.log", logs / "redis.log"), timeout_s)
        if pulsar is None:
            return
        progress("waiting for Pulsar")
        ready = partial(pulsar_server.is_ready, pulsar.ports["web"])
        launch.wait_ready(pulsar, ready, (logs / "pulsar-console.log", logs / "pulsar.log"), timeout_s)

    def _note(self, state: StackState, **changes: Any) -> StackState:
        self._noted = state.model_copy(update=changes)  # first: what cannot be stored must be stopped all the same
        states.save(self._home.state_file, self._noted)
        return self._noted

    def _undo(self, before: StackState) -> None:
        now = self._noted.living()
        fresh = now.model_copy(
            update={
                "pulsar": None if before.pulsar else now.pulsar,
                "estate": _fresh_servers(now.estate, before.estate),
                "redis": None if before.redis else now.redis,
            }
        )
        self._stop(fresh, quiet)
        with suppress(OSError):  # of a full disk; readers leave out servers that have ended
            states.save(self._home.state_file, before)

    def _stop(self, state: StackState, progress: Progress) -> None:
        if state.estate is not None:
            stop_estate(state.estate.servers, progress)
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
        """Delete data and logs, also behind links to another disk, which stay. Raises StackError if some are left."""
        for part in (self._home.pulsar, self._home.estate, self._home.redis, self._home.logs):
            folder = part.resolve()
            shutil.rmtree(folder, ignore_errors=True)
            if folder.exists():
                raise StackError(f"{folder} could not be deleted completely.", "Check its permissions and owner.")
            if part.is_symlink():
                folder.mkdir()


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
                f"{_DOWN_FIRST[:-1]}, or leave the port out.",
            )


def _refuse_another_shape(state: StackState, options: StackOptions) -> None:
    """Raise AlreadyRunning if another kind of Pulsar runs than the options ask for, or more of it."""
    asked = options.estate
    if asked is None:
        return
    if state.pulsar is not None:
        raise AlreadyRunning("The local stack runs a standalone Pulsar, not an estate.", _DOWN_FIRST)
    if state.estate is not None and not asked.shape.includes(state.estate.shape):
        running = f"{state.estate.shape.bookies} bookies and {state.estate.shape.brokers} brokers"
        raise AlreadyRunning(f"The local stack's estate has {running}; it can only grow while it runs.", _DOWN_FIRST)


def _fresh_servers(now: EstateState | None, before: EstateState | None) -> EstateState | None:
    """Return the servers that run now and did not before."""
    if now is None:
        return None
    old = {} if before is None else before.servers
    return now.model_copy(update={"servers": {name: each for name, each in now.servers.items() if name not in old}})


def _server_status(server: ServerState | None) -> dict[str, Any]:
    facts: dict[str, Any] = {"pid": None, "program": None, "version": None, "ports": {}, "memory_bytes": None}
    if server is not None:
        facts |= server.model_dump(exclude={"birth"}) | {"memory_bytes": processes.resident_bytes(server.pid)}
    return {"running": server is not None, **facts}


def _provision(addresses: StackAddresses, settings: PulsarSettings, progress: Progress) -> list[str]:
    """Provision Pulsar. A broker that has just started, above all after a kill, answers some requests with errors."""
    try:
        from backends.pulsar.provision import provision
        from estate.facts.provision import provision_estate
    except ModuleNotFoundError:
        return []
    progress("provisioning")
    here = settings.model_copy(update={"url": addresses.pulsar_url, "admin_url": addresses.pulsar_admin_url})
    estate = EstateSettings(brokers=addresses.brokers)
    return launch.once_reached(lambda: [*provision(here), *(provision_estate(here, estate) if estate.brokers else [])])
