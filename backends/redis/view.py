"""The view in Redis as a whole: client, names and scripts. Registry, epochs, seats and workers are made from it."""

import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

import redis
from redis.connection import AbstractConnection

from backends.redis.client import (
    Arg,
    Observe,
    OnConnect,
    RedisClient,
    Scripts,
    assemble,
    connect,
    lua_folder,
    lua_texts,
    translated,
)
from backends.redis.keys import Keys
from backends.settings import RedisSettings

WITHOUT_TASK = "letters_without_task:"
"""Prefix of a lane's counter of messages that were no envelopes and became dead letters."""
CLAIM_MAX_MS = 13_000
"""The longest a claim can last unless a channel's timeout is above 10 s: that, a lease of 2 s, and a margin."""
_RUN_ID = re.compile(rb"^run_id:(\w+)", re.MULTILINE)


@dataclass(frozen=True)
class RedisView:
    """client: for plain commands. scripts: those in backends/lua."""

    client: RedisClient
    keys: Keys
    scripts: Scripts
    address: str = ""
    """Server, database and prefix; with this host's name if the server is on it. No credentials."""

    def call(self, name: str, *args: Arg) -> Any:
        """A script's answer; it gets the prefix as KEYS[1]. Raises Unreachable."""
        return self.scripts.call(name, [self.keys.prefix], args)

    def call_many(self, calls: Sequence[tuple[str, Sequence[Arg]]]) -> list[Any]:
        """The answers of (name, args) in one round trip. Raises Unreachable."""
        return self.scripts.call_many([(name, [self.keys.prefix], args) for name, args in calls])

    def command(self, name: str, *args: Arg) -> Any:
        """The answer of a plain command. Raises Unreachable."""
        with translated(self.client):
            return self.client.execute_command(name, *args)  # type: ignore[no-untyped-call]  # the vendor's

    def now_ms(self) -> int:
        """Redis' time, the one that all claims and use-bys are counted in. Raises Unreachable."""
        with translated(self.client):
            return redis_now_ms(self.client)

    def run_id(self) -> str:
        """Another one whenever Redis was started. Raises Unreachable."""
        with translated(self.client):
            return str(self.client.info("server")["run_id"])

    def ping(self) -> None:
        """Raises Unreachable, with the cause, if Redis does not take our commands."""
        self.command("PING")

    def stats(self) -> dict[str, int]:
        """Counters of rare events (repeats ...). Raises Unreachable."""
        return {name.decode(): int(value) for name, value in self.command("HGETALL", self.keys.stats).items()}

    def count(self, name: str, by: int = 1) -> None:
        """Adds to a counter. Raises Unreachable."""
        self.command("HINCRBY", self.keys.stats, name, by)

    def wipe(self) -> int:
        """Deletes every key of the prefix at once; how many there were. The next worker rebuilds the view from Pulsar.
        Raises Unreachable."""
        return int(self.call("wipe", f"{self.keys.prefix}:*"))

    def close(self) -> None:
        self.client.close()


def open_view(
    settings: RedisSettings, *, claim_max_ms: int = CLAIM_MAX_MS, observe: Observe | None = None
) -> RedisView:
    """The view under the settings' prefix; nothing is sent yet."""
    keys = Keys(settings.prefix)
    client = connect(settings, restart_guard(keys, claim_max_ms))
    scripts = Scripts(client, lua_folder("backends.redis"), observe=observe)
    return RedisView(client, keys, scripts, _address_of(client, keys.prefix))


def _address_of(client: redis.Redis, prefix: str) -> str:
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


def restart_guard(keys: Keys, claim_max_ms: int) -> OnConnect:
    """Return what is done with every new connection: if it leads to another run of Redis than the view knows, Redis was
    restarted with its data, or a replica took its place. Both may lack the claims of the last second, so nothing is
    granted from then on until these have ended. claim_max_ms: of the longest that is made here."""
    text = assemble("note_restart", lua_texts(lua_folder("backends.redis")))

    def guard(connection: AbstractConnection) -> None:
        connection.on_connect_check_health(check_health=False)
        server, known, time = _ask(connection, ("INFO", "server"), ("HGET", keys.epoch, "run_id"), ("TIME",))
        found = _RUN_ID.search(server)
        if found is not None and known not in (None, found[1]):
            _ask(connection, ("EVAL", text, 1, keys.prefix, _ms(*time), found[1], claim_max_ms))

    return guard


def _ask(connection: AbstractConnection, *commands: tuple[Arg, ...]) -> list[Any]:
    """Return the answers of commands in one round trip of a connection that no client has yet."""
    packed = connection.pack_commands(commands)  # type: ignore[no-untyped-call]  # the vendor's
    connection.send_packed_command(packed, check_health=False)  # type: ignore[no-untyped-call]
    return [connection.read_response() for _ in commands]


def redis_now_ms(client: redis.Redis) -> int:
    """Redis' time in ms."""
    return _ms(*client.time())


def _ms(seconds: bytes | int, microseconds: bytes | int) -> int:
    return int(seconds) * 1000 + int(microseconds) // 1000
