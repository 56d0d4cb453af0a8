"""Starts the two servers and waits until they are ready."""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from dispatcher.model.errors import Unreachable
from fairlane.local_stack import birth_of
from lab.stack import distribution, java, ports, processes, pulsar_server, redis_server
from lab.stack.errors import NoSpace, ServerDied
from lab.stack.estate.shape import EstateRequest
from lab.stack.homes import Home
from lab.stack.state import ServerState, StackPorts

POLL_S = 0.2
NEEDED_BYTES = 500_000_000
"""Free disk space below which nothing is started: Pulsar turns read-only on a full disk."""

_FOREIGN_DATA = ("Bad file format reading the append only file", "handle RDB format version")
"""Messages of Redis and Valkey about data written by a version that they do not know."""

USUAL_PORTS = StackPorts(broker=6650, web=8080, redis=6379)

Progress = Callable[[str], None]
Result = TypeVar("Result")


@dataclass(frozen=True)
class StackOptions:
    """How the local stack starts. A port that is None is the usual one, or the next free one above it."""

    pulsar_port: int | None = None
    pulsar_web_port: int | None = None
    redis_port: int | None = None
    ready_timeout_s: float = 120.0
    """How long the servers may take until they answer."""
    usual: StackPorts = USUAL_PORTS
    estate: EstateRequest | None = None
    """An estate in place of the standalone Pulsar."""


def start_redis(home: Home, options: StackOptions, env: Mapping[str, str], progress: Progress) -> ServerState:
    """Start Redis or Valkey without waiting until it is ready."""
    program = redis_server.find(env)
    port = _port(options.redis_port, options.usual.redis, "Redis", progress)
    conf = redis_server.write_conf(home, port)
    progress(f"starting Redis ({program.path.name} {program.version}) on port {port}")
    pid = processes.start_detached([str(program.path), str(conf)], home.redis, home.logs / "redis-console.log", env)
    return started(pid, program.path.name, program.version, {"redis": port}, home.logs / "redis-console.log")


def prepare_pulsar(cache: Path, env: Mapping[str, str], progress: Progress) -> None:
    """Fetch Pulsar unless it is in the cache. Raises JavaUnusable first if it could not be run."""
    java.find(env)
    distribution.ensure(cache, env, progress)


def start_pulsar(
    home: Home, options: StackOptions, cache: Path, env: Mapping[str, str], progress: Progress
) -> ServerState:
    """Start Pulsar standalone without waiting until it is ready."""
    java_program = java.find(env)
    unpacked = distribution.ensure(cache, env, progress)
    broker = _port(options.pulsar_port, options.usual.broker, "Pulsar", progress)
    web = _port(options.pulsar_web_port, options.usual.web, "Pulsar's REST", progress)
    chosen = pulsar_server.PulsarPorts(broker, web, _bookie_port(home))
    progress(f"starting Pulsar {distribution.VERSION} on ports {chosen.broker} and {chosen.web} (REST)")
    command = pulsar_server.command(java_program, unpacked, home, chosen)
    console = home.logs / "pulsar-console.log"
    pid = processes.start_detached(command, home.pulsar, console, pulsar_server.environment(env))
    return started(pid, "pulsar standalone", distribution.VERSION, asdict(chosen), console)


def _bookie_port(home: Home) -> int:
    """Return the port of the bookie, to which the data is bound permanently."""
    stored = pulsar_server.stored_bookie_port(home)
    port = stored.load()
    if port is None:
        port = ports.choose(ports.own_port(home.root))
        stored.save(port)
    return ports.require_bound(port, "local stack")


def _port(asked_port: int | None, usual: int, what: str, progress: Progress) -> int:
    if asked_port is not None:
        return ports.require(asked_port, what)
    chosen = ports.choose(usual)
    if chosen != usual:
        progress(f"port {usual} is taken by another program: {what} gets {chosen}")
    return chosen


def started(pid: int, program: str, version: str, numbers: dict[str, int], log: Path) -> ServerState:
    """Return the state of a process that was just started. Raises ServerDied if it has ended."""
    birth = birth_of(pid)
    if birth is None:
        raise died(program, log)
    return ServerState(pid=pid, birth=birth, program=program, version=version, ports=numbers)


def wait_ready(server: ServerState, ready: Callable[[], bool], logs: tuple[Path, ...], timeout_s: float) -> None:
    """Wait until the server listens on its ports and `ready()` returns true.

    Both are checked because another program that took a port may answer, too. Raises ServerDied with the end of the
    server's log if the server ends first or takes too long.
    """
    end = time.monotonic() + timeout_s
    while not (all(processes.listens(server.pid, port) for port in server.ports.values()) and ready()):
        if not server.alive:
            raise died(server.program, *logs)
        if time.monotonic() > end:
            raise ServerDied(f"{server.program} was not ready after {timeout_s:.0f} s.", _see(logs))
        time.sleep(POLL_S)


def once_reached(act: Callable[[], Result], within_s: float = 20.0) -> Result:
    """Return what `act` returns. Call it again while it raises Unreachable, which is raised in the end."""
    end_s = time.monotonic() + within_s
    while True:
        try:
            return act()
        except Unreachable:
            if time.monotonic() > end_s:
                raise
            time.sleep(POLL_S)


def died(program: str, *logs: Path) -> ServerDied | NoSpace:
    """Return the error for a server that ended while it was being started."""
    output = "\n".join(part for part in map(processes.last_lines, logs) if part)
    if "No space left on device" in output:
        return NoSpace(f"{program} ended: the disk is full.", "Free some space and start again.")
    if any(words in output for words in _FOREIGN_DATA):
        return ServerDied(
            f"{program} ended: it cannot read the data it found, which a newer or another server wrote.",
            f"Put that server first on PATH, or delete the data: `fairlane stack down --wipe`. {_see(logs)}",
        )
    return ServerDied(f"{program} ended while it was being started.", f"{_see(logs)} Its last lines:\n{output}")


def _see(logs: tuple[Path, ...]) -> str:
    return f"Its log is {logs[-1]}."
