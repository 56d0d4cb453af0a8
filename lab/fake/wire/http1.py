"""HTTP/1.1, by aiohttp's parser: Google's clients ask for access tokens over it, and FCM takes pushes."""

import asyncio

from aiohttp import web

from lab.fake.admin import side_reply
from lab.fake.messages import ClientFacts, Reply, Request
from lab.fake.site import FakeSite
from lab.fake.wire.course import Step, break_connection, step_of


class Http1:
    """Serves connections of HTTP/1.1."""

    def __init__(self, site: FakeSite) -> None:
        self.site = site
        self.clients: dict[object, Http1Connection] = {}
        """Open connections by aiohttp's protocol."""
        self._server = web.Server(self._serve, access_log=None)

    def protocol(self, *, has_certificate: bool) -> asyncio.Protocol:
        """Return the protocol of a new connection."""
        return Http1Connection(self, self._server(), has_certificate=has_certificate)

    async def close(self) -> None:
        """End all connections."""
        await self._server.shutdown(0.1)

    async def _serve(self, incoming: web.BaseRequest) -> web.StreamResponse:
        names = [name.lower() for name in incoming.headers]
        request = Request(
            incoming.method,
            incoming.path_qs,
            {name.lower(): value for name, value in incoming.headers.items()},
            await incoming.content.read(),
            len(set(names)) < len(names),
        )
        client = self.clients.get(incoming.protocol)
        if client is None:
            raise ConnectionResetError
        return await client.handle(request)


class Http1Connection(asyncio.Protocol):
    """See OpenConnection. Passes bytes on to aiohttp's protocol."""

    def __init__(self, owner: Http1, parser: asyncio.Protocol, *, has_certificate: bool) -> None:
        self._owner, self._parser, self._site = owner, parser, owner.site
        self._peer = ClientFacts(has_certificate=has_certificate, is_http2=False)
        self._pushes = 0

    # ------------------------------------------------------------- asyncio's side
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._owner.clients[self._parser] = self
        self._site.open.add(self)
        self._site.accounts.connections += 1
        self._parser.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._parser.data_received(data)

    def eof_received(self) -> bool | None:
        return self._parser.eof_received()

    def pause_writing(self) -> None:
        self._parser.pause_writing()

    def resume_writing(self) -> None:
        self._parser.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        del self._owner.clients[self._parser]
        self._site.open.discard(self)
        self._parser.connection_lost(exc)

    # ------------------------------------------------------------- Connection
    def follow_rules(self) -> None:
        """There is nothing to announce."""

    def shut(self) -> None:
        """See OpenConnection."""
        break_connection(self._transport)

    # ------------------------------------------------------------- requests
    async def handle(self, request: Request) -> web.Response:
        """Answer a request."""
        if not self._site.is_push(request.path):
            return _response(side_reply(self._site, request))
        self._pushes += 1
        step = step_of(self._pushes, self._site.rules)
        handling = self._site.receive(request, self._peer)
        if step is Step.RESET:
            self.shut()
        if step in (Step.RESET, Step.SILENT):
            await asyncio.Event().wait()  # until the connection ends
        await asyncio.sleep(handling.delay_s)
        response = _response(handling.reply)
        goaway = self._site.rules.goaway
        if goaway is not None and self._pushes >= goaway.after:
            response.force_close()
        return response


def _response(reply: Reply) -> web.Response:
    return web.Response(status=reply.status, body=reply.body, headers=dict(reply.headers))
