"""An in-memory Redis. The vendor's client connects to it, so answers go through the client's own code."""

import secrets
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import redis
from redis._parsers.base import BaseParser
from redis.exceptions import ResponseError

from backends.addresses import Address
from backends.redis.client import RedisClient
from backends.redis.pools import OnConnect
from lab.simulator.redis.commands import OK, Answer, Commands
from lab.simulator.redis.keyspace import KEYSPACE
from lab.simulator.redis.lua import ScriptHost
from lab.simulator.redis.store import Store


class MemoryRedis:
    """One server: its store, its scripts, and the id of its run."""

    def __init__(self, now_ms: Callable[[], int], commands: Commands = KEYSPACE) -> None:
        """Create a server. `now_ms` returns its wall time; `commands` are those that scripts may call."""
        self.store = Store(now_ms)
        self.scripts = ScriptHost(self.store, commands)
        self.run_id = secrets.token_hex(20)
        self._started_ms = now_ms()

    def restart(self, *, emptied: bool = False) -> None:
        """Restart with another run id and no scripts; with `emptied` also without data, as if it had not been saved."""
        self.run_id = secrets.token_hex(20)
        self._started_ms = self.store.now_ms()
        self.scripts.forget()
        if emptied:
            self.store.clear()

    def fail_over(self) -> None:
        """Replace this server by a replica: with another run id, its data and its scripts."""
        self.run_id = secrets.token_hex(20)

    def client(self, on_connect: OnConnect | None = None) -> RedisClient:
        """Return a client. Its connections end when the server's run ends."""
        pool = redis.ConnectionPool(
            connection_class=MemoryConnection, server=self, protocol=2, redis_connect_func=on_connect
        )
        client = cast("RedisClient", RedisClient.from_pool(pool))
        client.address, client.rule = Address("redis://memory", "in memory"), ""
        return client

    def call(self, words: Sequence[bytes]) -> Answer:
        """Return the answer of a command. Raises ResponseError."""
        name = words[0].upper()
        if name == b"EVALSHA":
            count = int(words[2])
            return self.scripts.evalsha(words[1], words[3 : 3 + count], words[3 + count :])
        if name == b"EVAL":
            return self.call([b"EVALSHA", self.scripts.load(words[1]), *words[2:]])
        if name == b"SCRIPT":
            return self._script(words[1].upper(), words[2:])
        if name == b"INFO":
            uptime_s = (self.store.now_ms() - self._started_ms) // 1000
            server = b"# Server\r\nrun_id:%s\r\nuptime_in_seconds:%d\r\n" % (self.run_id.encode(), uptime_s)
            return server + b"# Replication\r\nrole:master\r\n# Cluster\r\ncluster_enabled:0\r\n"
        return KEYSPACE.call(self.store, words)

    def _script(self, what: bytes, words: Sequence[bytes]) -> Answer:
        if what == b"LOAD":
            return self.scripts.load(words[0])
        if what == b"EXISTS":
            return [int(self.scripts.knows(digest)) for digest in words]
        if what == b"FLUSH":
            self.scripts.forget()
            return OK
        raise ResponseError("ERR unknown subcommand")


class MemoryConnection(redis.connection.AbstractConnection):
    """A connection of the vendor's client to a server in this process."""

    def __init__(self, server: MemoryRedis, **options: Any) -> None:
        self._server = server
        self._answers: deque[Answer | ResponseError] = deque()
        self._run_id = ""
        super().__init__(**{"driver_info": None, **options})  # the vendor's would read its version from a file

    def repr_pieces(self) -> list[tuple[str, str]]:
        return [("server", "in memory")]

    def connect(self) -> None:
        """Reconnect if the connection was ended, or if the server's run id has changed."""
        if self._run_id != self._server.run_id:
            if self.redis_connect_func is not None:
                self.redis_connect_func(self)  # type: ignore[call-arg]  # the vendor's type has no argument
            self._run_id = self._server.run_id

    def on_connect_check_health(self, check_health: bool = True) -> None:  # noqa: FBT001, FBT002 - redis-py's
        """Do nothing: a connection in this process needs no handshake."""

    def _connect(self) -> None:
        """Do nothing: there is no socket."""

    def _host_error(self) -> str:
        return "memory"

    def disconnect(self, *_: object) -> None:
        self._answers.clear()
        self._run_id = ""

    def can_read(self, *_: object) -> bool:
        return bool(self._answers)

    def send_command(self, *words: Any, **_: Any) -> None:
        self._take(words)

    def pack_commands(self, commands: Iterable[Sequence[Any]]) -> list[Sequence[Any]]:
        return list(commands)

    def send_packed_command(self, command: Iterable[Sequence[Any]], check_health: bool = True) -> None:  # noqa: ARG002, FBT001, FBT002
        for words in command:
            self._take(words)

    def read_response(self, *_: Any, **__: Any) -> Any:
        answer = self._answers.popleft()
        if isinstance(answer, ResponseError):
            raise BaseParser.parse_error(str(answer))  # type: ignore[no-untyped-call]  # the vendor's
        return answer

    def _take(self, words: Sequence[Any]) -> None:
        first, *rest = words
        try:
            answer: Answer | ResponseError = self._server.call([*first.encode().split(), *map(_encoded, rest)])
        except ResponseError as error:
            answer = error
        self._answers.append(answer)


def _encoded(word: Any) -> bytes:
    return word if isinstance(word, bytes) else str(word).encode()
