"""Read the inputs of a request: a bounded body in bounded time, and JSON without any doubt."""

import asyncio
import json
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec
from aiohttp import HttpVersion11, web

from dispatcher.model.errors import InvalidInput
from web.problems import BUSY, RETRY_S, UNREADABLE, ProblemError, of_status

READ_S = 10.0
"""Time for a body of JSON to come."""
SMALL_BYTES = 64 << 10
"""A body up to this size always finds room."""
ROOM_BYTES = 64 << 20
"""Room of one process for larger bodies, all together."""
_FIELD = re.compile(r"Object (contains unknown|missing required) field `(\w{1,60})`", re.ASCII)
T = TypeVar("T")


class Room:
    """Bounds the memory of all bodies that are read or used at the same time."""

    def __init__(self) -> None:
        self._taken = 0

    @contextmanager
    def for_body(self) -> Iterator[bytearray]:
        """Hold room for a body until the end of the block."""
        body = bytearray()
        try:
            yield body
        finally:
            self._taken -= max(0, len(body) - SMALL_BYTES)

    def add(self, body: bytearray, chunk: bytes) -> None:
        """Add to a body. Raises ProblemError if there is no room."""
        more = max(0, len(body) + len(chunk) - SMALL_BYTES) - max(0, len(body) - SMALL_BYTES)
        if self._taken + more > ROOM_BYTES:
            retry = {"Retry-After": str(RETRY_S)}
            raise ProblemError(BUSY, "Too many large bodies are being sent at once.", "Send it again later.", retry)
        self._taken += more
        body += chunk


async def want_body(request: web.Request) -> None:
    """Let a client send its body that waits for a word (Expect: 100-continue)."""
    if request.headers.get("Expect", "").lower() == "100-continue" and request.version >= HttpVersion11:
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # the answer has not begun


async def read_body(request: web.Request, max_bytes: int, room: Room, body: bytearray) -> None:
    """Read the body. Raises ProblemError: 413 before the rest is read, 415 for a coding, 408 after READ_S, 503."""
    coding = request.headers.get("Content-Encoding", "identity")
    if coding.lower() != "identity":
        raise ProblemError(of_status(415), f"Content-Encoding {coding!r} is not known here.", "Send the body as it is.")
    if (request.content_length or 0) > max_bytes:
        raise too_large(max_bytes)
    await want_body(request)
    try:
        async with asyncio.timeout(READ_S):
            async for chunk in request.content.iter_any():
                if len(body) + len(chunk) > max_bytes:
                    raise too_large(max_bytes)
                room.add(body, chunk)
    except TimeoutError:
        raise ProblemError(of_status(408), f"The body did not come within {READ_S:.0f} s.") from None


def too_large(max_bytes: int) -> ProblemError:
    """Return the problem of a body that is too large."""
    return ProblemError(
        of_status(413), f"The body has more than {max_bytes:,} bytes.", "Send less at once, or targets as NDJSON."
    )


def parse_json(body: bytes | bytearray, model: type[T]) -> T:
    """Return the body as a model. Raises ProblemError if it is not JSON, InvalidInput if it does not fit."""
    try:
        json.loads(body, object_pairs_hook=distinct)
        return msgspec.json.decode(body, type=model)
    except InvalidInput:
        raise
    except msgspec.ValidationError as error:
        raise _misfit(error) from None
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        cause = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ProblemError(UNREADABLE, f"The body is no JSON: {cause}.") from None


def parse_query(pairs: Collection[tuple[str, str]], model: type[T]) -> T:
    """Return the query as a model. Raises InvalidInput."""
    if (twice := _repeated(name for name, _ in pairs)) is not None:
        raise InvalidInput(f"{twice}: is given more than once.")
    try:
        return msgspec.convert(dict(pairs), model, strict=False)
    except msgspec.ValidationError as error:
        raise _misfit(error) from None


def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of its names and values. Raises InvalidInput for a name that is there twice."""
    if (twice := _repeated(name for name, _ in pairs)) is not None:
        raise InvalidInput(f"The field {twice!r} is in one object twice.")
    return dict(pairs)


def _repeated(names: Iterable[str]) -> str | None:
    seen = set[str]()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def _misfit(error: msgspec.ValidationError) -> InvalidInput:
    """Return the error that names the field, as in `targets[3].vars`; `body` is the whole body."""
    cause, _, path = str(error).partition(" - at `")
    place = path.rstrip("`").partition("[...]")[0].removeprefix("$").removeprefix(".")
    field = _FIELD.fullmatch(cause)
    if field is not None:
        place = f"{place}.{field[2]}".removeprefix(".")
        cause = "there is no such field" if field[1] == "contains unknown" else "is missing"
    return InvalidInput(f"{place or 'body'}: {cause}.")
