"""Uploads: bodies of any length, handed to a thread while they come.

A body is complete only if the server's parser says so. Anything else that ends it (a closed connection, a missing last
chunk, a truncated gzip, a slow client, a server that stops) raises in the thread that reads it, so that no task is
sealed with a part of its audience.
"""

import asyncio
import logging
import zlib
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor
from queue import Queue
from typing import Final, TypeVar

from aiohttp import web

from dispatcher.model.errors import NotReady
from producers.files.lines import Feed
from web.bodies import want_body
from web.metrics import ApiFigures
from web.problems import BUSY, RETRY_S, UNREADABLE, Kind, ProblemError, of_status

MAX_UPLOADS: Final = 8
"""Uploads at once in a process. Each holds a thread and up to about 3 MB of its body."""
MAX_OF_APP: Final = 6
"""Those of one app, so that it cannot take the places of all."""
MIN_BYTES_S: Final = 1_000
PACE_S: Final = 10.0
"""A client that is waited for must send MIN_BYTES_S on average over this time."""
STOP_S: Final = 15.0
"""Time for open uploads to be complete once the server is told to stop: shorter than that of other requests."""
MAX_RATIO: Final = 200
"""Bytes that a byte of gzip may become: numbered targets with 4 kB of equal variables make 150, a bomb 1,000."""
_LINE_BYTES: Final = 50
"""The bytes that a line counts as: blank ones would keep a thread busy for minutes. Numbered targets take two bytes
of gzip each; a byte may become four lines."""
_FREE_BYTES: Final = 1 << 20
"""Bytes that any gzip may become."""
_CHUNKS: Final = 4
"""Chunks of a body between the event loop and the thread, of up to half a megabyte each."""
_GZIP: Final = 16 + zlib.MAX_WBITS
_AGAIN: Final = "Send the same again."
T = TypeVar("T")
_log = logging.getLogger(__name__)


class Body:
    """The body of a request: the event loop puts its chunks in, a thread takes them. It is a Feed, which raises what
    broke it off."""

    def __init__(self) -> None:
        self.taken = 0
        """Bytes read by the thread."""
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Semaphore(_CHUNKS)
        self._chunks: Queue[bytes | Exception | None] = Queue()
        self._is_over = False
        self._failure: Exception | None = None

    async def put(self, chunk: bytes) -> None:
        """Add a chunk once there is room for it."""
        await self._room.acquire()
        self._chunks.put(chunk)

    def end(self, failure: Exception | None) -> None:
        """End the body. failure: what broke it off; None if it is complete. A later end changes nothing."""
        self._chunks.put(failure)

    def read1(self, _size: int, /) -> bytes:
        """Wait for the next chunk, of any size; empty at the end of a complete body. Raises what broke it off."""
        if not self._is_over:
            chunk = self._chunks.get()
            if isinstance(chunk, bytes):
                self.taken += len(chunk)
                self._loop.call_soon_threadsafe(self._room.release)
                return chunk
            self._is_over, self._failure = True, chunk
        if self._failure is not None:
            raise self._failure
        return b""

    def poll(self, _timeout_ms: float, /) -> bool:
        """Return whether `read1` returns without waiting."""
        return self._is_over or not self._chunks.empty()


class Unpacked:
    """The bytes of a body in gzip, of one or several members."""

    def __init__(self, body: Body) -> None:
        self._body = body
        self._inflate = zlib.decompressobj(_GZIP)
        self._packed = b""
        self._bytes = 0

    def read1(self, size: int, /) -> bytes:
        """Wait for bytes, at most `size`. Raises ProblemError if it is no gzip, ends early, or becomes too large."""
        while True:
            packed = self._packed or self._body.read1(size)
            if not packed and self._inflate.eof:
                return b""
            if self._inflate.eof:
                self._inflate = zlib.decompressobj(_GZIP)
            data = self._decompressed(packed, size)
            if data:
                return data
            if not packed:
                raise _broken_off("The gzip of the body ends before its end.")

    def poll(self, timeout_ms: float, /) -> bool:
        """Return whether bytes can probably be read without waiting."""
        return bool(self._packed) or self._body.poll(timeout_ms)

    def _decompressed(self, packed: bytes, size: int) -> bytes:
        try:
            data = self._inflate.decompress(packed, size)
        except zlib.error as error:
            raise ProblemError(UNREADABLE, f"The body is no gzip: {error}.") from None
        self._packed = self._inflate.unconsumed_tail or self._inflate.unused_data
        self._bytes += len(data) + _LINE_BYTES * (data.count(b"\n") + data.count(b"\r"))
        if self._bytes > MAX_RATIO * self._body.taken + _FREE_BYTES:
            detail = (
                f"The gzip of the body becomes more than {MAX_RATIO} times as large, with {_LINE_BYTES} for a line."
            )
            raise ProblemError(of_status(413), detail, "Send it without gzip.")
        return data


class Uploads:
    """The uploads of a process."""

    def __init__(self, threads: Executor, stopping: asyncio.Event, figures: ApiFigures) -> None:
        """stopping: set once the server is told to stop."""
        self._threads = threads
        self._stopping = stopping
        self._figures = figures
        self._by_app = Counter[str]()
        figures.free_uploads = MAX_UPLOADS

    async def receive(self, request: web.Request, app: str, handle: Callable[[Feed], T]) -> T:
        """Return what a function makes of a request's body, which it reads in a thread while it comes.

        app: of its key, if it acts for one. Raises NotReady if the server stops, ProblemError if there are too many
        uploads or for an unknown coding, and what the function raises.
        """
        packed = _is_packed(request)
        if self._stopping.is_set():
            raise NotReady("This server stops.", "Ask another one.")
        self._check_room(app)
        self._by_app[app] += 1
        self._figures.free_uploads -= 1
        body = Body()
        tasks = [asyncio.create_task(_feed(request, body)), asyncio.create_task(self._end_when_stopping(body))]
        try:
            source = Unpacked(body) if packed else body
            return await asyncio.get_running_loop().run_in_executor(self._threads, handle, source)
        finally:
            self._by_app[app] -= 1
            self._figures.free_uploads += 1
            body.end(_broken_off())  # for a thread that still reads, if this request was cancelled
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)  # then the server reads the rest

    def _check_room(self, app: str) -> None:
        if app and self._by_app[app] >= MAX_OF_APP:
            used = f"{MAX_OF_APP} uploads of app {app}, as many as one app may have,"
        elif self._figures.free_uploads < 1:
            used = f"{MAX_UPLOADS} uploads"
        else:
            return
        detail, step = f"{used} are under way in this process.", "Send it again once one has ended."
        raise ProblemError(BUSY, detail, step, {"Retry-After": str(RETRY_S)})

    async def _end_when_stopping(self, body: Body) -> None:
        await self._stopping.wait()
        await asyncio.sleep(STOP_S)
        body.end(NotReady("This server stops, and has broken off the upload.", _AGAIN))


UPLOADS = web.AppKey("uploads", Uploads)


async def _feed(request: web.Request, body: Body) -> None:
    """Put the chunks of a request into its body, then its end."""
    try:
        await want_body(request)
        await _put_all(request, body)
        body.end(None)
    except ProblemError as error:
        body.end(error)
    except Exception as error:
        _log.debug("an upload broke off: %r", error)
    finally:
        body.end(_broken_off())  # unless it has ended


async def _put_all(request: web.Request, body: Body) -> None:
    """Return at the end of a complete body. Raises ProblemError for a slow client, and what aiohttp raises."""
    loop, received, waited_s = asyncio.get_running_loop(), 0, 0.0
    while True:
        began_s, chunk = loop.time(), None
        try:
            async with asyncio.timeout(PACE_S - waited_s) as limit:
                chunk = await request.content.readany()
        except TimeoutError:
            if not limit.expired():  # the connection's own
                raise
        if chunk == b"":
            if (error := request.content.exception()) is not None:  # the last chunk was malformed
                raise error
            return
        waited_s += loop.time() - began_s
        received += len(chunk or b"")
        if waited_s >= PACE_S:
            if received < PACE_S * MIN_BYTES_S:
                raise _broken_off(f"Less than {MIN_BYTES_S:,} bytes a second came.", of_status(408))
            received, waited_s = 0, 0.0
        if chunk:
            await body.put(chunk)


def _is_packed(request: web.Request) -> bool:
    coding = request.headers.get("Content-Encoding", "identity").lower()
    if coding not in ("identity", "gzip"):
        raise ProblemError(of_status(415), f"Content-Encoding {coding!r} is not known here.", "Send gzip, or as it is.")
    return coding == "gzip"


def _broken_off(detail: str = "The upload broke off.", kind: Kind = UNREADABLE) -> ProblemError:
    return ProblemError(kind, f"{detail} Its task is not complete.", _AGAIN, {"Retry-After": str(RETRY_S)})
