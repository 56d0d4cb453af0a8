"""Send answers that go on, while the key of their client is valid and the server does not stop.

A client that does not read is cut off as any other (web.connections.WRITE_S).
"""

from collections.abc import Callable, Mapping
from contextlib import aclosing, suppress

from aiohttp import web

from dispatcher.model.errors import FairlaneError
from web.health import STOPPING
from web.routing import Stream


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
                    await response.write(part)
                part = await anext(parts)
                check()
    return response
