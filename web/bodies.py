"""Read the inputs of a request: a bounded body in bounded time, and JSON without any doubt."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from dispatcher.model.errors import InvalidInput
from web.problems import UNREADABLE, ProblemError, of_status

READ_S = 10.0
"""Time for a body of JSON to come."""
T = TypeVar("T")


async def read_body(request: web.Request, max_bytes: int) -> bytes:
    """Return the body. Raises ProblemError: 413 before the rest is read, 415 for a coding, 408 after READ_S."""
    coding = request.headers.get("Content-Encoding", "identity")
    if coding.lower() != "identity":
        raise ProblemError(of_status(415), f"Content-Encoding {coding!r} is not known here.", "Send the body as it is.")
    if (request.content_length or 0) > max_bytes:
        raise too_large(max_bytes)
    body = bytearray()
    try:
        async with asyncio.timeout(READ_S):
            async for chunk in request.content.iter_any():
                body += chunk
                if len(body) > max_bytes:
                    raise too_large(max_bytes)
    except TimeoutError:
        raise ProblemError(of_status(408), f"The body did not come within {READ_S:.0f} s.") from None
    return bytes(body)


def too_large(max_bytes: int) -> ProblemError:
    """Return the problem of a body that is too large."""
    return ProblemError(
        of_status(413), f"The body has more than {max_bytes:,} bytes.", "Send less at once, or targets as NDJSON."
    )


def parse_json(body: bytes, model: type[T]) -> T:
    """Return the body as a model. Raises ProblemError if it is not JSON, InvalidInput if it does not fit."""
    try:
        document = msgspec.json.decode(body)
        json.loads(body, object_pairs_hook=_distinct)
    except InvalidInput:
        raise
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        cause = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ProblemError(UNREADABLE, f"The body is no JSON: {cause}.") from None
    return _converted(document, model, strict=True)


def parse_query(query: Mapping[str, str], keys: list[str], model: type[T]) -> T:
    """Return the query as a model. Raises InvalidInput. keys: the names in it, with repetitions."""
    for name in keys:
        if keys.count(name) > 1:
            raise InvalidInput(f"{name}: is given more than once.")
    return _converted(dict(query), model, strict=False)


def _converted(document: Any, model: type[T], *, strict: bool) -> T:
    try:
        return msgspec.convert(document, model, strict=strict)
    except msgspec.ValidationError as error:
        cause, _, path = str(error).partition(" - at `")
        place = path.rstrip("`").removeprefix("$").removeprefix(".")
        raise InvalidInput(f"{place or 'body'}: {cause}.") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidInput(f"{twice}: is in one object twice.")
    return found
