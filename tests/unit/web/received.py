"""Uploads without a server: what a thread reads of a body that comes in chunks."""

import asyncio
import gzip
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from producers.files.lines import Feed
from producers.submit.cutter import Slab
from web.problems import ProblemError, of_status
from web.routes.ndjson import TaskLines
from web.uploads import Body, Unpacked

T = TypeVar("T")
HEAD = b'{"channel": "null", "message": "hello"}\n'
BROKEN = ProblemError(of_status(400), "broken off")


def received(
    chunks: Iterable[bytes], read: Callable[[Feed], T], *, packed: bool = False, failure: Exception | None = None
) -> T:
    """Return what a function reads in a thread. failure: what breaks the body off after its chunks."""

    async def receive() -> T:
        body = Body()

        async def feed() -> None:
            for chunk in chunks:
                await body.put(chunk)
            body.end(failure)

        feeding = asyncio.create_task(feed())
        try:
            return await asyncio.to_thread(read, Unpacked(body) if packed else body)
        finally:
            feeding.cancel()

    return asyncio.run(receive())


def whole(source: Feed) -> bytes:
    """Read a body to its end."""
    return b"".join(iter(lambda: source.read1(1 << 16), b""))


def slabs(source: Feed) -> list[Slab]:
    """Read the targets of an upload."""
    lines = TaskLines(source)
    lines.task(dict)
    return list(lines.slabs(1))


def items(found: Iterable[Slab]) -> list[tuple[int, object]]:
    """Return targets with their lines."""
    return [(slab.line_of(index), item) for slab in found for index, item in enumerate(slab.items)]


def cut(data: bytes, at: Sequence[int]) -> list[bytes]:
    """Return the parts of some bytes, none of them empty."""
    places = [0, *sorted({place % max(1, len(data)) for place in at}), len(data)]
    return [part for part in map(lambda first, end: data[first:end], places, places[1:]) if part]


def members(parts: Iterable[bytes]) -> bytes:
    """Return gzip with a member for each part."""
    return b"".join(map(gzip.compress, parts))
