"""Send answers that go on: to clients that read, while their key is valid and the server does not stop."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import aclosing, suppress

from aiohttp import web

from dispatcher.model.errors import FairlaneError
from web.health import STOPPING
from web.routing import Stream

WRITE_S = 15.0
"""Time for a part to leave; a client that reads more slowly is cut off."""


async def send_stream(
    request: web.Request, stream: Stream, headers: Mapping[str, str], check: Callable[[], object]
) -> web.StreamResponse:
    """Send a stream until it ends. check: raises once the client's key is not valid any more.

    Raises what the first part raises: nothing is sent then.
    """
    unbuffered = {"Content-Type": stream.content_type, "X-Accel-Buffering": "no"}  # the latter for nginx
    response = web.StreamResponse(headers={**headers, **unbuffered})
    response.force_close()
    async with aclosing(stream.parts) as parts:
        part = await anext(parts)
        await response.prepare(request)
        if request.method == "HEAD":
            return response
        with suppress(FairlaneError, ConnectionError, StopAsyncIteration):
            while request.transport is not None and not request.app[STOPPING].is_set():
                if part:
                    await _write(request.transport, response, part)
                part = await anext(parts)
                check()
    return response


async def _write(transport: asyncio.Transport, response: web.StreamResponse, part: bytes) -> None:
    """Send a part. Raises ConnectionError for a client that reads too slowly, whose connection is cut."""
    try:
        async with asyncio.timeout(WRITE_S):
            await response.write(part)
    except TimeoutError:
        transport.abort()
        raise ConnectionAbortedError from None
