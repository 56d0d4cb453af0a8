"""Connections to a server that are kept alive, for many requests at once from one thread."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Self

import msgspec

from dispatcher.model.errors import FairlaneError

_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
Ask = Callable[["Connection", int], Awaitable[None]]
"""Makes the request of a number."""


class Connection:
    """One connection, which makes a request after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: str) -> None:
        self.reader = reader
        self._writer = writer
        self._head = head

    @classmethod
    async def open(cls, port: int, token: str) -> Self:
        """Connect. Raises OSError."""
        head = f"HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 20), head)

    def send(self, method: str, path: str, document: Any = None) -> None:
        """Send a request without waiting for its answer."""
        body = b"" if document is None else msgspec.json.encode(document)
        self._writer.write(f"{method} {path} {self._head}Content-Length: {len(body)}\r\n\r\n".encode() + body)

    async def head(self) -> tuple[int, bytes]:
        """Return the status and the headers of the next answer."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        return int(head.split(maxsplit=2)[1]), head

    async def ask(self, method: str, path: str, document: Any = None) -> bytes:
        """Make a request and return the body of its answer. Raises FairlaneError for another status than 2xx."""
        self.send(method, path, document)
        status, head = await self.head()
        length = _LENGTH.search(head)
        body = await self.reader.readexactly(int(length[1])) if length else b""
        if status >= 300:
            raise FairlaneError(f"{method} {path} was answered with {status}: {body.decode()[:500]}")
        return body

    def close(self) -> None:
        self._writer.close()


async def at_once(port: int, token: str, connections: int, seconds: float, ask: Ask) -> list[float]:
    """Make requests on some connections, each after the one before. Return how long each took, in seconds."""
    took: list[float] = []
    until_s = time.perf_counter() + seconds

    async def go_on(connection: Connection) -> None:
        while (began_s := time.perf_counter()) < until_s:
            await ask(connection, len(took))
            took.append(time.perf_counter() - began_s)

    opened = [await Connection.open(port, token) for _ in range(connections)]
    try:
        async with asyncio.TaskGroup() as tasks:
            for connection in opened:
                tasks.create_task(go_on(connection))
    finally:
        for connection in opened:
            connection.close()
    return sorted(took)


async def at_rate(port: int, token: str, rate: float, seconds: float, paths: Sequence[str]) -> dict[str, list[float]]:
    """Ask for the paths in turn, at a rate a second, whatever the answers take. Return the seconds by path, each from
    the moment at which its request was due."""
    took: dict[str, list[float]] = {path: [] for path in paths}
    free: list[Connection] = []
    began_s = time.perf_counter()

    async def ask(path: str, due_s: float) -> None:
        connection = free.pop() if free else await Connection.open(port, token)
        await connection.ask("GET", path)
        free.append(connection)
        took[path].append(time.perf_counter() - due_s)

    try:
        async with asyncio.TaskGroup() as tasks:
            for number in range(round(rate * seconds)):
                due_s = began_s + number / rate
                await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
                tasks.create_task(ask(paths[number % len(paths)], due_s))
    finally:
        for connection in free:
            connection.close()
    return took


def quantile_ms(seconds: Sequence[float], part: float) -> float:
    """Return a quantile in milliseconds."""
    ordered = sorted(seconds)
    return 1000 * ordered[min(len(ordered) - 1, int(part * len(ordered)))]
