"""The console over a service in memory, as a browser without script sees it."""

import html
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple
from urllib.parse import urlencode

from dispatcher.access.principal import Principal
from producers.desk.access_book import LOCAL
from producers.desk.front_door import Desks
from tests.unit.dispatch.desk.desk_world import DeskWorld
from tests.unit.web.stub_server import Server, served

Value = str | int | Sequence[str]


class Seen(NamedTuple):
    """A page as it came."""

    status: int
    html: str
    file: str = ""
    """The name under which a browser stores it."""

    @property
    def text(self) -> str:
        """Its visible text, with single spaces."""
        return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", self.html)).split())

    @property
    def hidden(self) -> dict[str, str]:
        """The fields that a plan keeps for its second button."""
        found = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', self.html)
        return {name: html.unescape(value) for name, value in found}

    def link(self, text: str) -> str:
        """Return the address of a link."""
        found = re.search(rf'href="([^"]*)"[^>]*>{text}<', self.html)
        assert found is not None, text
        return html.unescape(found[1])


class Browser:
    """Shows pages to one who is signed in."""

    def __init__(self, world: DeskWorld, server: Server) -> None:
        self.world = world
        self._server = server
        self._head = "Host: localhost\r\nSec-Fetch-Site: same-origin\r\nAccept: text/html\r\nCookie: fairlane=1\r\n"

    async def get(self, address: str, *, is_update: bool = False) -> Seen:
        part = "X-Part: main\r\n" if is_update else ""
        reply = await self._server.ask(f"GET {address}", headers=self._head + part)
        disposition = reply.headers.get("content-disposition", "")
        return Seen(reply.status, reply.body.decode(), disposition.partition('"')[2].removesuffix('"'))

    async def send(self, address: str, fields: Mapping[str, Value]) -> Seen:
        """Send a form."""
        body = urlencode(fields, doseq=True).encode()
        head = f"{self._head}Content-Type: application/x-www-form-urlencoded\r\n"
        reply = await self._server.ask(f"POST {address}", body, head)
        return Seen(reply.status, reply.body.decode())

    async def confirm(self, address: str, fields: Mapping[str, Value]) -> Seen:
        """Send a form whose plan was seen."""
        return await self.send(address, {**fields, "confirm": "1"})


@asynccontextmanager
async def browsing(world: DeskWorld, token: str = "") -> AsyncIterator[Browser]:
    """Open the console for the local operator, or for who has a key."""
    world.book.follow()
    world.connection.folds.follow()
    signed_in = world.book.principal(token) if token else world.book.principal_of(LOCAL)

    def desks(principal: Principal, request: str) -> Desks:
        return Desks(principal, world.connection, world.book, world.board, request)

    sessions = SimpleNamespace(principal=lambda _cookie: signed_in)
    door: Any = SimpleNamespace(
        desks=desks, sessions=sessions, book=world.book, pulsar=world.connection.folds, take_request=lambda _: None
    )
    async with served(door) as server:
        yield Browser(world, server)
