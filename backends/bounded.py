"""Read what servers around Fairlane answer: token issuers, metadata servers, Sentinels, Pulsar's REST interface.

The answer may come from another server, or go on without an end. So the bytes and the time of an answer have bounds, it
is never unpacked, and redirects are followed only where `retries` says so.
"""

import io
import socket
import time
from collections.abc import Callable
from functools import partial
from http.client import HTTPResponse
from typing import TYPE_CHECKING, Any, NamedTuple, cast

if TYPE_CHECKING:
    from urllib3 import PoolManager
    from urllib3.connectionpool import HTTPConnectionPool


class Bounds(NamedTuple):
    """Bounds of one answer."""

    max_bytes: int
    """With its headers."""
    total_s: float
    """From the end of the request to the last byte."""


ISSUER = Bounds(256 << 10, 10.0)
"""Access tokens, and what a machine's metadata server says. The longest known has 4 kB."""
SENTINEL_BYTES = 256 << 10
PULSAR_BYTES = 64 << 20
"""The statistics of a hundred thousand lanes."""
NODE = Bounds(1 << 20, 5.0)
"""A bookie's state."""


def open_http(bounds: Bounds, *, proxy: str | None = None, **options: Any) -> "PoolManager":
    """Return urllib3's pools, with bounded answers. `options`: those of urllib3.

    A longer answer raises ProtocolError, a slower one ReadTimeoutError.
    """
    import urllib3  # commands that only read Redis do without it
    from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

    pools = urllib3.ProxyManager(proxy, **options) if proxy else urllib3.PoolManager(**options)
    pools.pool_classes_by_scheme = {
        "http": _bounded(HTTPConnectionPool, bounds),
        "https": _bounded(HTTPSConnectionPool, bounds),
    }
    return pools


class _Budget:
    """The rest of the bounds of one answer."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._left = bounds.max_bytes
        self._end_s = time.monotonic() + bounds.total_s

    def receive(self, sock: socket.socket, receive: Callable[[], int | None]) -> int | None:
        """Receive some bytes and return their number. Raises TimeoutError and OSError beyond the bounds."""
        left_s, limit_s = self._end_s - time.monotonic(), sock.gettimeout()
        if left_s <= 0:
            raise TimeoutError(f"the answer takes more than {self._bounds.total_s:g} s")
        if limit_s is None or limit_s > left_s:
            sock.settimeout(left_s)
        size = receive()
        self._left -= size or 0
        if self._left < 0:
            raise OSError(f"the answer has more than {self._bounds.max_bytes:,} bytes")
        return size


class BoundedSocket:
    """A socket to a server that answers each message. Every `sendall` begins an answer with bounds of its own."""

    def __init__(self, sock: socket.socket, bounds: Bounds) -> None:
        self._sock, self._bounds = sock, bounds
        self._timeout_s, self._budget = sock.gettimeout(), _Budget(bounds)

    def sendall(self, data: bytes) -> None:
        self._budget = _Budget(self._bounds)
        self._sock.settimeout(self._timeout_s)
        self._sock.sendall(data)

    def recv_into(self, buffer: Any) -> int:
        return self._budget.receive(self._sock, partial(self._sock.recv_into, buffer)) or 0

    def recv(self, size: int, flags: int = 0) -> bytes:
        if flags:  # a look at what has come
            return self._sock.recv(size, flags)
        buffer = bytearray(size)
        return bytes(buffer[: self.recv_into(buffer)])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


class _AnswerFile(io.RawIOBase):
    """The bytes of one answer of HTTP."""

    def __init__(self, sock: socket.socket, bounds: Bounds) -> None:
        self._sock, self._budget = sock, _Budget(bounds)
        self._file = cast("io.RawIOBase", sock.makefile("rb", buffering=0))

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        return self._budget.receive(self._sock, partial(self._file.readinto, buffer))

    def close(self) -> None:
        self._file.close()
        super().close()


class _Reader(io.BufferedReader):
    """Reads an answer. A length or a chunk that it announces makes no room by itself."""

    def __init__(self, sock: socket.socket, bounds: Bounds) -> None:
        super().__init__(_AnswerFile(sock, bounds))
        self._max_bytes = bounds.max_bytes

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(size if size is None else min(size, self._max_bytes + 1))


class _Answer(HTTPResponse):
    """An answer of HTTP."""

    def __init__(self, bounds: Bounds, sock: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self.fp.close()
        self.fp = _Reader(sock, bounds)

    def begin(self) -> None:
        """Read the headers. No encoding is asked for, so a body that has one is left packed."""
        super().begin()
        del self.headers["Content-Encoding"]


def _bounded(pool: "type[HTTPConnectionPool]", bounds: Bounds) -> "type[HTTPConnectionPool]":
    """Return a pool whose connections read bounded answers."""
    connection = type(
        pool.ConnectionCls.__name__, (pool.ConnectionCls,), {"response_class": staticmethod(partial(_Answer, bounds))}
    )
    return type(pool.__name__, (pool,), {"ConnectionCls": connection})
