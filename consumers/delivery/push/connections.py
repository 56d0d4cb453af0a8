"""The connections of one app under one version of its credential."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from itertools import cycle
from typing import Any

from consumers.delivery.http2.curl_client import CurlClient
from consumers.delivery.http2.first_alone import FirstAlone
from consumers.delivery.http2.port import HttpClient, HttpRequest, HttpResponse
from consumers.delivery.http2.settings import ClientCertificate, ClientSettings
from consumers.delivery.push.provider import Provider
from consumers.delivery.settings import PushApp


class Connections:
    """An HttpClient. Once retired, it is closed when the last call that uses it has ended."""

    def __init__(self, clients: list[CurlClient], *, first_alone: bool) -> None:
        self._clients = clients
        self._alone = [FirstAlone(client) for client in clients] if first_alone else []
        self._turns: Iterator[HttpClient] = cycle(self._alone or clients)
        self._users = 0
        self._retired = False
        self._closing: asyncio.Task[None] | None = None

    def send(self, request: HttpRequest) -> Coroutine[Any, Any, HttpResponse]:
        """See HttpClient.send. Not a coroutine function, which would cost another coroutine for each request."""
        return next(self._turns).send(request)

    @contextmanager
    def used(self) -> Iterator[None]:
        """Keep the connections open while a call uses them."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            self._close_if_unused()

    def renew(self) -> None:
        """Use new connections from now on: these do not answer, or the provider no longer accepts their credential."""
        if self._closing is not None:
            return
        for client in self._clients:
            client.renew_connections()
        for alone in self._alone:
            alone.begin_again()

    def retire(self) -> None:
        """Close as soon as no call uses them."""
        self._retired = True
        self._close_if_unused()

    async def close(self) -> None:
        """Close now."""
        for client in self._clients:
            await client.close()

    def _close_if_unused(self) -> None:
        if self._retired and not self._users and self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self.close())


def make_connections(
    provider: Provider, app: PushApp, certificate: ClientCertificate | None, timeout_s: float
) -> Connections:
    """Return connections that open when they are needed. Raises InvalidInput for wrong settings."""
    count = app.connections or provider.connections
    settings = ClientSettings(
        ca_file=app.ca_file,
        certificate=certificate,
        proxy=app.proxy_address,
        connections=1 if provider.first_alone else count,
        streams=app.streams or provider.streams,
        timeout_s=timeout_s,
        connect_timeout_s=min(5.0, timeout_s),
    )
    clients = [CurlClient(settings) for _ in range(count if provider.first_alone else 1)]
    return Connections(clients, first_alone=provider.first_alone)
