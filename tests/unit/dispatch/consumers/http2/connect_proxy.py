"""A proxy that knows CONNECT."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Proxy:
    url: str
    asked: list[str] = field(default_factory=list)
    """Addresses that clients wanted to reach."""


@asynccontextmanager
async def proxying(*, refuse: bool = False, certificates: Path | None = None) -> AsyncIterator[Proxy]:
    """Run a proxy. refuse: it answers 407. certificates: those of a proxy that is reached by TLS."""
    context = None
    if certificates is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
    proxy = Proxy("")
    tunnels = set[asyncio.Task[None]]()

    def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tunnels.add(asyncio.ensure_future(_serve(proxy, reader, writer, refuse=refuse)))

    server = await asyncio.start_server(accepted, "127.0.0.1", 0, ssl=context)
    proxy.url = f"http{'s' if context else ''}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        server.close()
        for task in tunnels:
            task.cancel()
        await asyncio.gather(*tunnels, return_exceptions=True)


async def _serve(proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, refuse: bool) -> None:
    async with _ended(writer):
        head = await reader.readuntil(b"\r\n\r\n")
        address = head.split()[1].decode()
        proxy.asked.append(address)
        if refuse:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            return
        host, _, port = address.rpartition(":")
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        async with _ended(far_writer):
            writer.write(b"HTTP/1.1 200 OK\r\nX-Proxy: yes\r\n\r\n")
            await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))


@asynccontextmanager
async def _ended(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    try:
        yield
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
    writer.close()
