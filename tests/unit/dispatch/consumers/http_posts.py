"""Posts of the http channel to a server that answers as a test says."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from consumers.delivery.channels.http import HttpChannel
from dispatcher.wire.envelope import Envelope
from dispatcher.wire.outcome import Outcome, Report, Verdict
from tests.unit.dispatch.consumers.envelopes import envelope

Answering = Callable[[web.Request], Awaitable[web.StreamResponse]]
THREE = envelope(7, ["a", "b", "c"], attempt=2)
FAILED = int(Outcome.FAILED)
CLIENTS = ("aiohttp", "pycurl")


class Chosen:
    """The client that posts are made with."""

    client = "auto"


async def post_all(answer: Answering, envelopes: list[Envelope], settings: dict[str, Any]) -> list[Report]:
    """Delivers to a server that answers so."""
    app = web.Application()
    app.router.add_post("/push", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        return await deliver(f"http://127.0.0.1:{port}/push", envelopes, settings)
    finally:
        await runner.cleanup()


async def deliver(url: str, envelopes: list[Envelope], settings: dict[str, Any]) -> list[Report]:
    channel = HttpChannel({"url": url, "client": Chosen.client, **settings})
    await channel.open()
    try:
        return list(await channel.deliver(envelopes, "high"))
    finally:
        await channel.close()


def post(answer: Answering, *envelopes: Envelope, **settings: Any) -> list[Report]:
    return asyncio.run(post_all(answer, list(envelopes) or [THREE], settings))


def answering(status: int = 200, text: str = "", **headers: str) -> Answering:
    async def answer(_request: web.Request) -> web.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(status=status, text=text, headers=named)

    return answer


def verdict(answer: Answering, **settings: Any) -> Verdict:
    (report,) = post(answer, **settings)
    assert report.exceptions is None
    return report.verdict


class RawProvider:
    """Takes whole POSTs, and does with each what a test says by its number."""

    def __init__(self, act: Callable[[int, asyncio.StreamWriter], None]) -> None:
        self.taken = 0
        self._act = act
        self._writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
                await reader.readexactly(length)
                self.taken += 1
                self._act(self.taken, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass

    async def close(self) -> None:
        for writer in self._writers:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for writer in self._writers), return_exceptions=True)


def deliver_raw(
    act: Callable[[int, asyncio.StreamWriter], None], count: int = 1, query: str = "", **settings: Any
) -> tuple[RawProvider, list[Report]]:
    """Post envelopes one after the other, over one connection as long as it lives."""
    provider = RawProvider(act)

    async def main() -> list[Report]:
        server = await asyncio.start_server(provider.serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/push{query}"
        channel = HttpChannel({"url": url, "client": Chosen.client, "concurrency": 1, "timeout_s": 5.0, **settings})
        await channel.open()
        try:
            return [report for number in range(count) for report in await channel.deliver([envelope(number)], "high")]
        finally:
            await channel.close()
            server.close()
            await provider.close()

    return provider, asyncio.run(main())
