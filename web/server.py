"""The HTTP server of one process."""

import asyncio
import logging
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from aiohttp import http_parser, web

from dispatcher.model.errors import InvalidInput, Refused, Unreachable
from producers.desk.front_door import FrontDoor
from web import health, middleware, openapi
from web.routes import ROUTES
from web.routing import checked

HEADER_S = 10.0
"""Time for the headers of a request; and for the next request of a connection."""
END_S = 20.0
"""Time for open requests once the server is told to stop."""
MAX_HEADERS = 64
MAX_CONNECTIONS = 1_000
THREADS = 64
LOOPBACK = ("127.0.0.1", "::1", "localhost")
LOCAL_HOSTS = ("127.0.0.1", "[::1]", "localhost")
"""What a client on this machine writes into the header Host."""
_LOOK_S = 0.1
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Where a server listens, and for whom."""

    host: str = "127.0.0.1"
    port: int = 8480
    unix_socket: Path | None = None
    """Listen here instead of at host and port."""
    certificate: Path | None = None
    """With `private_key`: TLS, with these PEM files."""
    private_key: Path | None = None
    behind_proxy: bool = False
    """A proxy in front of it speaks TLS."""
    hosts: frozenset[str] = frozenset(LOCAL_HOSTS)
    """Names by which clients may call it."""
    processes: int = 1

    def check(self) -> None:
        """Raise InvalidInput for a server that would carry keys over a network in the clear."""
        if (self.certificate is None) != (self.private_key is None):
            raise InvalidInput("TLS needs both files.", "Give --tls-certificate and --tls-key.")
        if self.unix_socket is not None and self.processes > 1:
            raise InvalidInput("processes: several cannot share a Unix socket.", "Serve on a port.")
        is_local = self.unix_socket is not None or self.host in LOOPBACK
        if not (is_local or self.certificate or self.behind_proxy):
            raise InvalidInput(
                f"host: {self.host} is not this machine alone, and keys would travel in the clear.",
                "Give --tls-certificate and --tls-key, or --behind-proxy if a proxy in front of it has them.",
            )


def check_parser() -> None:
    """Raise Refused without aiohttp's parser in C: its parser in Python took requests that proxies read otherwise."""
    if http_parser.HttpRequestParser is http_parser.HttpRequestParserPy:
        raise Refused(
            "aiohttp has no parser in C on this machine.", "Unset AIOHTTP_NO_EXTENSIONS, or install a wheel of aiohttp."
        )


def application(door: FrontDoor, threads: ThreadPoolExecutor, hosts: frozenset[str]) -> web.Application:
    """Return the application. Raises LookupError if a route has no action."""
    app = web.Application(middlewares=[middleware.answer_with_problems, middleware.only_hosts(hosts)])
    app[health.DOOR], app[health.STOPPING] = door, asyncio.Event()
    for route in checked(ROUTES):
        app.router.add_route(route.method, route.path, middleware.handler_of(route, door, threads))
    app.router.add_routes(openapi.OPEN_ROUTES)
    return app


async def serve(settings: ServerSettings, door: FrontDoor, stop: threading.Event) -> None:
    """Serve until `stop` is set; then let open requests end. Raises Unreachable if the address is taken."""
    check_parser()
    with ThreadPoolExecutor(THREADS, thread_name_prefix="api") as threads:
        app = application(door, threads, settings.hosts)
        runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            keepalive_timeout=HEADER_S,
            max_headers=MAX_HEADERS,
            auto_decompress=False,
            shutdown_timeout=END_S,
        )
        await runner.setup()
        try:
            await _site(runner, settings).start()
            _log.info("listening at %s", settings.unix_socket or f"{settings.host}:{settings.port}")
            while not stop.is_set():  # noqa: ASYNC110  # signals set an attribute and nothing else
                await asyncio.sleep(_LOOK_S)  # signals set an attribute and nothing else
            app[health.STOPPING].set()
        except OSError as error:
            raise Unreachable(f"The server cannot listen: {error}.", "Choose another --port.") from error
        finally:
            await runner.cleanup()


def _site(runner: web.AppRunner, settings: ServerSettings) -> web.BaseSite:
    if settings.unix_socket is not None:
        return web.UnixSite(runner, settings.unix_socket)
    context = None
    if settings.certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(settings.certificate, settings.private_key)
    return web.TCPSite(
        runner, settings.host, settings.port, ssl_context=context, reuse_port=settings.processes > 1 or None
    )
