"""A client beside a frame server, and what its requests came to."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from consumers.delivery.http2.curl_client import CurlClient
from consumers.delivery.http2.port import HttpClient, HttpRequest, HttpResponse, RequestFailed
from consumers.delivery.http2.settings import ClientSettings
from tests.unit.dispatch.consumers.http2.frame_server import FrameServer

Outcome = HttpResponse | RequestFailed


@asynccontextmanager
async def opened(certificates: Path, **settings: Any) -> AsyncIterator[CurlClient]:
    values = {"ca_file": str(certificates / "ca.pem"), "timeout_s": 5.0, **settings}
    client = CurlClient(ClientSettings(**values))
    try:
        yield client
    finally:
        await client.close()


async def attempt(client: HttpClient, server: FrameServer, name: str, body: bytes = b'{"to": "x"}') -> Outcome:
    """Make a request with an id and return its answer or its failure."""
    try:
        return await client.send(HttpRequest(url=f"{server.url}/send", body=body, headers=(("x-id", name),)))
    except RequestFailed as failure:
        return failure


async def attempts(client: HttpClient, server: FrameServer, names: list[str]) -> dict[str, Outcome]:
    """Make requests at the same time."""
    found = await asyncio.gather(*(attempt(client, server, name) for name in names))
    return dict(zip(names, found, strict=True))


async def until(condition: Callable[[], bool]) -> None:
    """Wait for it; the test's time limit is the deadline."""
    while not condition():  # noqa: ASYNC110  # of any kind
        await asyncio.sleep(0.01)
