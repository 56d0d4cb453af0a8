"""The connections of one process: how many there are, and how long each may take for what it has to say."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler, RequestPayloadError

from web import problems
from web.framing import StrictParser
from web.metrics import ApiFigures

HEADER_S = 10.0
"""Time for the headers of a request, and for a TLS handshake."""
IDLE_S = 75.0
"""Time until the next request of a connection: longer than proxies keep theirs, so that they close first."""
WRITE_S = 30.0
"""Time without a byte taken, after which a client that does not read its answer is cut off."""
LINGER_S = 1.0
"""Time for which the rest of a body that nobody wants is read, so that the client sees the answer."""
MAX_CONNECTIONS = 1_000
MAX_HEADERS = 64
_AGAIN_S = 1.0
_log = logging.getLogger(__name__)


async def accept(
    listener: socket.socket, server: web.Server, figures: ApiFigures, context: ssl.SSLContext | None
) -> None:
    """Accept connections until cancelled. Beyond MAX_CONNECTIONS a connection is closed at once."""
    loop, beginning = asyncio.get_running_loop(), set[asyncio.Task[None]]()
    while True:
        try:
            client, _ = await loop.sock_accept(listener)
        except OSError as error:  # no more files, for example
            _log.error("no connection can be accepted: %s", error)
            await asyncio.sleep(_AGAIN_S)
            continue
        if figures.connections + len(beginning) >= MAX_CONNECTIONS:
            client.close()
        else:
            task = loop.create_task(_begin(client, partial(Connection, server, figures), context))
            beginning.add(task)
            task.add_done_callback(beginning.discard)
        await asyncio.sleep(0)  # so that a flood of connections does not hold up the others


async def _begin(client: socket.socket, make: Callable[[], "Connection"], context: ssl.SSLContext | None) -> None:
    within_s = None if context is None else HEADER_S
    try:
        await asyncio.get_running_loop().connect_accepted_socket(
            make, client, ssl=context, ssl_handshake_timeout=within_s
        )
    except OSError as error:
        _log.debug("a connection was not completed: %s", error)


class Connection(RequestHandler):
    """One connection."""

    def __init__(self, server: web.Server, figures: ApiFigures) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # it takes None
            keepalive_timeout=IDLE_S,
            max_headers=MAX_HEADERS,
            auto_decompress=False,
            lingering_time=LINGER_S,
        )
        assert self._parser is not None
        self._strict = StrictParser(self._parser)  # type: ignore[arg-type]
        self._parser = self._strict  # type: ignore[assignment]
        self._figures = figures
        self._head_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._figures.connections += 1
        assert isinstance(transport, asyncio.WriteTransport)
        transport.set_write_buffer_limits(0)  # so that pause_writing says of every byte that is not taken
        self._head_timer = self._loop.call_later(HEADER_S, self.force_close)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._strict.is_in_head and self._head_timer is None:
            self._head_timer = self._loop.call_later(HEADER_S, self.force_close)
        elif not self._strict.is_in_head and self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def pause_writing(self) -> None:
        super().pause_writing()
        if self.transport is not None:
            self._write_timer = self._loop.call_later(WRITE_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self._figures.connections -= 1

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Return a problem for a request that no route has seen: it cannot be read. Its text stays out of the log."""
        if request.writer.output_size > 0:
            raise ConnectionError("The answer has begun.")
        id_, reason = problems.new_id(), (message or "").partition(":")[0]
        detail = f"The request is no HTTP as it is served here: {reason}."
        problem = problems.ProblemError(problems.UNREADABLE, detail)
        if status != problem.kind.status:
            _log.error("request %s failed outside of its route", id_, exc_info=exc)
            problem = problems.ProblemError(problems.INTERNAL, "The request failed.")
        self._figures.note("none", problem.kind.status, 0.0)
        response = problem.response(id_)
        response.force_close()
        return response

    def log_exception(self, *args: Any, exc_info: Any = True) -> None:
        level = logging.DEBUG if isinstance(exc_info, RequestPayloadError) else logging.ERROR
        _log.log(level, *args, exc_info=exc_info)
