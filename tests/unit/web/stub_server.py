"""The server in this process, over a door without a service behind it."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from dispatcher.access.principal import Principal, Scope
from dispatcher.model.errors import InvalidInput, NoKey, NotFound
from web.listening import ServerSettings, listening
from web.metrics import ApiFigures
from web.server import serve

KEY = "flk_000000000000_" + "s" * 43
WITHIN_S = 20.0
HEAD = f"Host: localhost\r\nAuthorization: Bearer {KEY}\r\n"


@dataclass
class StubDoor:
    """A door that knows KEY, and no task. Its lists come once `open` is set."""

    scopes: frozenset[Scope] = frozenset(Scope)
    app: str = ""
    open: threading.Event = field(default_factory=threading.Event)
    asked: list[str] = field(default_factory=list)
    """Which methods of its desks were called."""
    fails_with: Exception | None = None
    cursor: str | None = None

    def __post_init__(self) -> None:
        self.open.set()

    def principal(self, token: str) -> Principal:
        if token != KEY:
            raise NoKey("The key is unknown.", "Send one.")
        return Principal(kind="key", name="1", scopes=self.scopes, app=self.app)

    def take_request(self, principal: Principal) -> None:
        """Allow every request."""

    def check_ready(self) -> None:
        """Be ready."""

    def desks(self, *_: object) -> Any:
        return SimpleNamespace(tasks=self, board=self)

    def tasks(self, *_: object) -> Any:
        self.asked.append("tasks")
        assert self.open.wait(WITHIN_S)
        if self.fails_with is not None:
            raise self.fails_with
        return SimpleNamespace(tasks=[], cursor=self.cursor, age=None, counts={})

    def task_and_message(self, id_: str) -> Any:
        self.asked.append(id_)
        raise NotFound(f"There is no task {id_}.")

    def change_many(self, *_: object) -> Any:
        raise InvalidInput("filter: selects nothing.")


@dataclass
class Server:
    """A server that listens."""

    port: int
    figures: ApiFigures
    stop: threading.Event
    ended: "asyncio.Task[None]"

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def say(self, request: bytes) -> bytes:
        """Return all that is answered until the server closes the connection."""
        reader, writer = await self.connect()
        writer.write(request)
        try:
            return await rest_of(reader)
        finally:
            writer.close()

    async def ask(self, line: str, body: bytes = b"", headers: str = HEAD) -> "Reply":
        """Return the answer to a request whose connection is closed after it. line: its method and path."""
        length = f"Content-Length: {len(body)}\r\n" if body else ""
        head = f"{line} HTTP/1.1\r\n{headers}{length}Connection: close\r\n\r\n"
        return Reply.parse(await self.say(head.encode() + body))


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @classmethod
    def parse(cls, read: bytes) -> "Reply":
        head, _, body = read.partition(b"\r\n\r\n")
        line, *rest = head.decode().split("\r\n")
        headers = dict(header.lower().split(": ", 1) for header in rest)
        return cls(int(line.split()[1]), headers, body)

    @property
    def document(self) -> Any:
        return json.loads(self.body)


@asynccontextmanager
async def served(door: StubDoor | None = None, **settings: Any) -> AsyncIterator[Server]:
    """Serve for the time of the block."""
    figures, stop = ApiFigures(), threading.Event()
    where = ServerSettings(port=0, **settings)
    with listening(where) as listener:
        ended = asyncio.create_task(serve(where, listener, door or StubDoor(), figures, stop))  # type: ignore[arg-type]
        port = listener.getsockname()[1] if listener.family == socket.AF_INET else 0
        try:
            yield Server(port, figures, stop, ended)
        finally:
            stop.set()
            await ended


async def rest_of(reader: asyncio.StreamReader) -> bytes:
    """Return all that comes until the server closes the connection."""
    read = b""
    async with asyncio.timeout(WITHIN_S):
        with suppress(ConnectionResetError):  # it had not read all that was sent
            while more := await reader.read(65_536):
                read += more
    return read


async def until(condition: Callable[[], object], what: str) -> None:
    """Wait for a condition with a deadline."""
    deadline_s = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < deadline_s, f"not within {WITHIN_S:g} s: {what}"
        await asyncio.sleep(0.01)
