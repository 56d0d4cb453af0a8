"""Posts of the http channel to a server that answers as a test says."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from consumers.delivery.channels.http import HttpChannel
from dispatcher.wire.envelope import Envelope
from dispatcher.wire.outcome import Outcome, Report, Verdict
from tests.unit.consumers.envelopes import envelope

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
