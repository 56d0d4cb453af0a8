"""Find the primary of a service by its Sentinels, and follow it."""

import logging
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from queue import Empty, Queue
from typing import Any

import redis
from redis._parsers import _RESP2Parser
from redis.sentinel import SentinelConnectionPool

from backends.bounded import SENTINEL_BYTES, BoundedSocket, Bounds
from backends.redis.faults import NoPrimary

_log = logging.getLogger(__name__)
WATCH_S = 1.0
"""How often the Sentinels are asked. What an old primary grants after a failover ends well within the claims wait."""
OTHERS_S = 0.5
"""How long the other Sentinels are waited for, once one has answered."""
State = Mapping[str, Any]
"""A Sentinel's answer about a service, by the names of `SENTINEL MASTER`."""
_UNKNOWN_SERVICE = "No such master"
_MAX_HOST = 255
"""Maximum characters of a host's name."""


@dataclass(frozen=True, order=True, kw_only=True)
class Primary:
    """A primary, as a Sentinel names it."""

    config_epoch: int
    """Grows with each failover."""
    host: str
    port: int

    @property
    def address(self) -> tuple[str, int]:
        return self.host, self.port


class Sentinels:
    """The Sentinels of one service. Safe for use by several threads."""

    def __init__(self, service: str, hosts: Sequence[tuple[str, int]], ask: Callable[[str, int], State]) -> None:
        """`ask` returns what the Sentinel at a host and port says of the service, and raises the vendor's errors."""
        self.service = service
        self.hosts = tuple(hosts)
        self._ask = ask
        self._known: Primary | None = None

    def discover_master(self, _service: str = "") -> tuple[str, int]:
        """Return host and port of the primary, as the vendor's pool asks for it. Raises NoPrimary.

        The answer of the newest failover wins, since a Sentinel that was cut off still names the old primary. If most
        Sentinels do not answer, an answer older than one already known does not count.
        """
        states = self.states()
        named = [_primary_of(state) for state in states.values() if not isinstance(state, Exception)]
        if not named:
            raise self._none_named({host: str(state) for host, state in states.items()})
        newest, known = max(named), self._known
        if known is not None and 2 * len(named) <= len(self.hosts):
            newest = max(newest, known)
        if known is not None and newest.address != known.address:
            _log.warning("the primary of %s is now %s:%d", self.service, *newest.address)
        self._known = newest
        return newest.address

    def states(self) -> dict[str, State | Exception]:
        """Ask all Sentinels at once. Return what each says of the service, or why it says nothing, by its address."""
        came: Queue[tuple[str, State | Exception]] = Queue()
        for host, port in self.hosts:
            threading.Thread(target=self._ask_one, args=(host, port, came.put), name="sentinel", daemon=True).start()
        states: dict[str, State | Exception] = {}
        deadline_s: float | None = None
        while len(states) < len(self.hosts):
            try:
                name, state = came.get(timeout=None if deadline_s is None else max(0.0, deadline_s - time.monotonic()))
            except Empty:
                break
            states[name] = state
            if deadline_s is None and not isinstance(state, Exception):
                deadline_s = time.monotonic() + OTHERS_S
        return states

    def _ask_one(self, host: str, port: int, put: Callable[[tuple[str, State | Exception]], None]) -> None:
        state: State | Exception
        try:
            state = self._ask(host, port)
            _primary_of(state)
        except Exception as error:  # another server may answer anything
            state = error
        put((f"{host}:{port}", state))

    def _none_named(self, errors: Mapping[str, str]) -> NoPrimary:
        causes = "; ".join(f"{host}: {error.rstrip('.')}" for host, error in sorted(errors.items()))
        if any(_UNKNOWN_SERVICE in error for error in errors.values()):
            next_step = f"Correct the service in redis.url: these Sentinels do not watch {self.service}."
        elif any("unknown command" in error.lower() for error in errors.values()):
            next_step = "Write the addresses of the Sentinels in redis.url, not those of Redis."
        elif any("auth" in error.lower() for error in errors.values()):
            next_step = "Set redis.sentinel_username and redis.sentinel_password."
        else:
            next_step = "Check that the Sentinels are running and their addresses in redis.url are right."
        return NoPrimary(f"{{redis}} has no known primary: no Sentinel names one ({causes}).", next_step)


class FollowingPool(SentinelConnectionPool):
    """Connections to the primary of a service. When the Sentinels name another one, those to the old one end.

    An old primary may go on for some seconds, with its clients, after a replica was promoted. So a thread asks the
    Sentinels, from the first connection until the pool is closed or forgotten.
    """

    def __init__(self, sentinels: Sentinels, **options: Any) -> None:
        self.sentinels = sentinels
        self._closed = threading.Event()
        super().__init__(sentinels.service, sentinels, **options)  # type: ignore[no-untyped-call]  # the vendor's

    def make_connection(self) -> Any:
        """Make a connection; the first one of this process starts the watch."""
        if self._unwatched.acquire(blocking=False):
            threading.Thread(target=_watch, args=(weakref.ref(self), self._closed), name="primary", daemon=True).start()
        return super().make_connection()

    def reset(self) -> None:
        """Forget all connections, as at the start and in a forked process, which has no thread of its parent."""
        self._unwatched = threading.Lock()
        super().reset()  # type: ignore[no-untyped-call]

    def end(self) -> None:
        """End the watch."""
        self._closed.set()


def _watch(pool_ref: "weakref.ref[FollowingPool]", closed: threading.Event) -> None:
    while not closed.wait(WATCH_S):
        pool = pool_ref()
        if pool is None:
            return
        try:
            pool.get_master_address()  # type: ignore[no-untyped-call]  # the vendor's
        except NoPrimary as error:
            _log.debug("%s", error)
        del pool


def _primary_of(state: State) -> Primary:
    host, port = str(state["ip"]), int(state["port"])
    if not (host.isprintable() and 0 < len(host) <= _MAX_HOST and 0 < port < 1 << 16):
        raise ValueError("it names no address")
    return Primary(host=host, port=port, config_epoch=int(state.get("config-epoch", 0)))


class _Bounded(redis.Connection):
    """A connection to a Sentinel, whose answers are bounded."""

    def __init__(self, **options: Any) -> None:
        """The parser in C would make room for each list at the length that it announces."""
        super().__init__(parser_class=_RESP2Parser, **options)  # type: ignore[no-untyped-call]  # the vendor's

    def _connect(self) -> Any:
        sock = super()._connect()  # type: ignore[no-untyped-call]  # the vendor's
        return BoundedSocket(sock, Bounds(SENTINEL_BYTES, sock.gettimeout()))


class _BoundedTls(_Bounded, redis.SSLConnection):
    pass


def asker(service: str, options: Mapping[str, Any]) -> Callable[[str, int], State]:
    """Return a function that asks a Sentinel for the state of a service, over a connection that is kept."""
    clients: dict[tuple[str, int], redis.Redis] = {}
    kind = _BoundedTls if options.get("ssl") else _Bounded
    given = {name: value for name, value in options.items() if name != "ssl"}

    def ask(host: str, port: int) -> State:
        client = clients.get((host, port))
        if client is None:
            pool = redis.ConnectionPool(connection_class=kind, host=host, port=port, **given)
            client = clients.setdefault((host, port), redis.Redis(connection_pool=pool))
        state: dict[str, Any] = client.execute_command("SENTINEL MASTER", service)  # type: ignore[no-untyped-call]
        # During a failover this command is the first to name the new primary.
        named = client.execute_command("SENTINEL GET-MASTER-ADDR-BY-NAME", service)  # type: ignore[no-untyped-call]
        return {**state, "ip": named[0], "port": named[1]} if named else state

    return ask
