"""A running fake: one port, TLS, HTTP/2 or HTTP/1.1 as the client asks."""

import asyncio
import errno
import signal
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.util import find_spec

from dispatcher.model.errors import InvalidInput, Refused
from lab.fake.certificates import TlsFiles
from lab.fake.site import FakeSite
from lab.fake.wire.course import break_connection
from lab.fake.wire.http1 import Http1
from lab.fake.wire.http2 import Http2Connection


class _Choosing(asyncio.Protocol):
    """A new connection: hands over to the protocol that TLS has agreed on."""

    def __init__(self, site: FakeSite, http1: Http1, over: asyncio.Event) -> None:
        self._site, self._http1, self._over = site, http1, over

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._over.is_set():  # its handshake ended after the fake had closed all others
            break_connection(transport)
            return
        tls = transport.get_extra_info("ssl_object")
        has_certificate = bool(transport.get_extra_info("peercert"))
        protocol: asyncio.Protocol
        if tls.selected_alpn_protocol() == "h2":
            protocol = Http2Connection(self._site, has_certificate=has_certificate)
        else:
            protocol = self._http1.protocol(has_certificate=has_certificate)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)


@asynccontextmanager
async def serving(site: FakeSite, files: TlsFiles, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[int]:
    """Serve; yields the port, a free one for 0. Raises Refused if it is taken."""
    http1, over = Http1(site), asyncio.Event()
    loop = asyncio.get_running_loop()
    try:
        server = await loop.create_server(lambda: _Choosing(site, http1, over), host, port, ssl=_context(files))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            cause = f"Port {port} of {host} is taken."
            raise Refused(cause, "Name another with --port, or 0 for a free one.") from error
        raise InvalidInput(f"{host}:{port} cannot be served: {error}.", "Name an address of this machine.") from error
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        over.set()
        server.close()
        for connection in list(site.open):
            connection.shut()
        await http1.close()


def _context(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.server, files.server_key)
    context.set_alpn_protocols(["h2", "http/1.1"])
    if files.asks_for_certificate:
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(files.authority)
    return context


def run_fake(site: FakeSite, files: TlsFiles, host: str, port: int, on_ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT. `on_ready` gets the fake's address. Raises Refused if the port is taken."""

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        async with serving(site, files, host, port) as served:
            on_ready(f"https://{f'[{host}]' if ':' in host else host}:{served}")
            await stop.wait()

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(main())


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Use uvloop where it is installed."""
    if find_spec("uvloop") is None:
        return None
    import uvloop

    return uvloop.new_event_loop
