"""The view in Redis as a whole: client, key names and scripts. Registry, epochs, locks and workers build on it."""

import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from ipaddress import ip_address
from typing import Any, Self

import redis
from redis import exceptions
from redis.connection import AbstractConnection

from backends.addresses import is_sentinel_url, sentinel_url
from backends.redis.client import (
    Arg,
    Observe,
    RedisClient,
    Scripts,
    assemble,
    connect,
    lua_folder,
    lua_texts,
    translated,
)
from backends.redis.faults import IsCluster, IsSentinel, NotPrimary
from backends.redis.keys import Keys
from backends.redis.pools import OnConnect
from backends.settings import RedisSettings

WITHOUT_TASK = "letters_without_task:"
"""Prefix of a lane's counter of messages that were not envelopes and became dead letters."""
SET_APART = "letters_set_apart:"
"""Prefix of a task's counter of targets whose envelopes could not be read or settled."""
LETTER_COUNTERS = "letters_"
CLAIM_MAX_MS = 13_000
"""Longest possible claim, unless a channel's timeout is above 10 s: that timeout, a lease of 2 s, and a margin."""
INFO = (("INFO", "server"), ("INFO", "replication"), ("INFO", "cluster"))
"""The commands whose answers `ServerRun.of` reads."""
_FIELD = re.compile(rb"^(\w+):([^\r\n]*)", re.MULTILINE)
_NEVER = b"-1"


@dataclass(frozen=True, kw_only=True)
class ServerRun:
    """One run of one server, and the last time that it became the primary."""

    run_id: bytes
    """Differs after every start of a server, and between two servers. Empty if the server does not say it."""
    promotion: bytes
    """Differs after every promotion of this run; empty if it was not promoted, or that is forgotten: a primary forgets
    it when it has had no replica for an hour."""

    @classmethod
    def of(cls, *answers: bytes) -> Self:
        """Read the answers of the commands in INFO. Raises IsSentinel, IsCluster, or NotPrimary."""
        fields = dict(_FIELD.findall(b"\n".join(answers)))
        mode = fields.get(b"redis_mode") or fields.get(b"server_mode")
        if mode == b"sentinel":
            raise IsSentinel
        if mode == b"cluster" or fields.get(b"cluster_enabled") == b"1":
            raise IsCluster
        if fields.get(b"role") == b"slave":
            raise NotPrimary
        offset = fields.get(b"second_repl_offset", _NEVER)
        promotion = b"" if offset == _NEVER else b"%b:%b" % (fields.get(b"master_replid2", b""), offset)
        return cls(run_id=fields.get(b"run_id", b""), promotion=promotion)

    def differs(self, run_id: bytes | None, promotion: bytes | None) -> bool:
        """Return whether a view of this run id and promotion may lack writes here. None: the view does not say it."""
        if not self.run_id or run_id is None:
            return False
        return run_id != self.run_id or (bool(self.promotion) and promotion != self.promotion)


@dataclass(frozen=True)
class RedisView:
    """The view in Redis."""

    client: RedisClient
    """For plain commands."""
    keys: Keys
    scripts: Scripts
    """The scripts in backends/redis/lua."""
    address: str = ""
    """Server, database and prefix, with this host's name if the server runs on it; without credentials."""

    def call(self, name: str, *args: Arg) -> Any:
        """Call a script with the prefix as KEYS[1] and return its answer. Raises Unreachable."""
        return self.scripts.call(name, [self.keys.prefix], args)

    def call_many(self, calls: Sequence[tuple[str, Sequence[Arg]]]) -> list[Any]:
        """Call many scripts, given as (name, args), in one round trip and return their answers. Raises Unreachable."""
        return self.scripts.call_many([(name, [self.keys.prefix], args) for name, args in calls])

    def command(self, name: str, *args: Arg) -> Any:
        """Run a plain command and return its answer. Raises Unreachable."""
        with translated(self.client):
            return self.client.execute_command(name, *args)  # type: ignore[no-untyped-call]  # the vendor's

    def commands(self, *commands: Sequence[Arg]) -> tuple[int, list[Any]]:
        """Run plain commands in one round trip. Return Redis' time after them, and their answers. Raises
        Unreachable."""
        with translated(self.client):
            pipeline = self.client.pipeline(transaction=False)
            for command in (*commands, ("TIME",)):
                pipeline.execute_command(*command)  # type: ignore[no-untyped-call]  # the vendor's
            *answers, time = pipeline.execute()
        return _ms(*time), answers

    def texts(self, key: str) -> dict[str, str]:
        """Return the fields of a hash. Raises Unreachable."""
        return texts_of(self.command("HGETALL", key))

    def now_ms(self) -> int:
        """Return Redis' time, by which all claims and use-bys are measured. Raises Unreachable."""
        with translated(self.client):
            return _ms(*self.client.time())

    def run(self) -> ServerRun:
        """Return which run of which server this is. Raises Unreachable, and Refused for a Redis Cluster."""
        with translated(self.client):
            return ServerRun.of(*(_raw_info(self.client, section) for _, section in INFO))

    def ping(self) -> None:
        """Raise Unreachable, with the cause, if Redis does not accept our commands."""
        self.command("PING")

    def stats(self) -> dict[str, int]:
        """Return the counters of rare events (repeats ...). Raises Unreachable."""
        return {name: int(value) for name, value in self.texts(self.keys.stats).items()}

    def count(self, name: str, by: int = 1) -> None:
        """Add to a counter. Raises Unreachable."""
        self.command("HINCRBY", self.keys.stats, name, by)

    def wipe(self) -> int:
        """Delete every key of the prefix at once and return their number. The next worker rebuilds the view from
        Pulsar. Raises Unreachable."""
        return int(self.call("wipe", f"{self.keys.prefix}:*"))

    def close(self) -> None:
        self.client.close()


def texts_of(fields: Mapping[bytes, bytes]) -> dict[str, str]:
    """Return the fields of a hash as texts."""
    return {name.decode(): value.decode() for name, value in fields.items()}


class ViewPart:
    """A part of the view: what is read and changed through it. Methods raise Unreachable if Redis cannot be reached."""

    def __init__(self, view: RedisView) -> None:
        self._view = view


def open_view(
    settings: RedisSettings,
    *,
    claim_max_ms: int = CLAIM_MAX_MS,
    observe: Observe | None = None,
    must_run: bool = True,
) -> RedisView:
    """Return the view under the settings' prefix; nothing is sent yet. must_run: as for `connect`."""
    keys = Keys(settings.prefix)
    client = connect(settings, restart_guard(keys, claim_max_ms), must_run=must_run)
    scripts = Scripts(client, lua_folder("backends.redis"), observe=observe)
    return RedisView(client, keys, scripts, _address_of(client, keys.prefix))


def _address_of(client: RedisClient, prefix: str) -> str:
    if is_sentinel_url(client.address):
        url = sentinel_url(client.address)
        here = f" on {socket.gethostname()}" if any(_is_loopback(host) for host, _ in url.hosts) else ""
        return f"{url.name}{here}, prefix {prefix}"
    options = client.connection_pool.connection_kwargs
    path, host = options.get("path"), options.get("host", "localhost")
    server = path or f"{host}:{options.get('port', 6379)}"
    here = f" on {socket.gethostname()}" if path or _is_loopback(host) else ""
    return f"{server}/{options.get('db') or 0}{here}, prefix {prefix}"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@cache
def _note_restart() -> str:
    return assemble("note_restart", lua_texts(lua_folder("backends.redis")))


def restart_guard(keys: Keys, claim_max_ms: int) -> OnConnect:
    """Return a function that checks every new connection: that it leads to a primary, and to the same run of it.

    If the run differs from the one that the view knows, Redis was restarted with its data, or a replica took its
    place. Both may lack the claims of the last second, so nothing is granted until these have ended. claim_max_ms:
    duration of the longest claim made here.
    """
    text = _note_restart()

    def guard(connection: AbstractConnection) -> None:
        connection.on_connect_check_health(check_health=False)
        *sections, known, time = _ask(connection, *INFO, ("HMGET", keys.epoch, "run_id", "promotion"), ("TIME",))
        run = ServerRun.of(*(answer for answer in sections if isinstance(answer, bytes)))
        for answer in (*sections, known, time):
            if isinstance(answer, Exception):
                raise answer
        if run.differs(*known):
            now_ms = _ms(*time)
            (noted,) = _ask(connection, ("EVAL", text, 1, keys.prefix, now_ms, run.run_id, claim_max_ms, run.promotion))
            if isinstance(noted, Exception):
                raise noted

    return guard


def _ask(connection: AbstractConnection, *commands: tuple[Arg, ...]) -> list[Any]:
    """Return the answers of commands, or their errors, in one round trip, on a connection that no client uses yet."""
    packed = connection.pack_commands(commands)  # type: ignore[no-untyped-call]  # the vendor's
    connection.send_packed_command(packed, check_health=False)  # type: ignore[no-untyped-call]
    return [_answer_of(connection) for _ in commands]


def _answer_of(connection: AbstractConnection) -> Any:
    try:
        return connection.read_response()
    except exceptions.ResponseError as error:
        return error


def _raw_info(client: redis.Redis, section: str) -> bytes:
    """Return the text of a section, which the vendor's client would parse."""
    connection = client.connection_pool.get_connection()
    try:
        connection.send_command("INFO", section)  # type: ignore[no-untyped-call]
        return bytes(connection.read_response())
    finally:
        client.connection_pool.release(connection)


def _ms(seconds: bytes | int, microseconds: bytes | int) -> int:
    return int(seconds) * 1000 + int(microseconds) // 1000
