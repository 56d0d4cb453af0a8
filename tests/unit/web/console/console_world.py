"""The console over a service in memory, and a browser's requests to it without a browser."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import aiohttp

from backends.redis.registry.sessions import SessionTable
from dispatcher.access.principal import Scope
from producers.desk.front_door import FrontDoor
from producers.desk.request_places import RequestPlaces
from producers.desk.sessions import Sessions
from tests.unit.dispatch.desk.desk_world import DeskWorld
from tests.unit.web.stub_server import served

SAME_SITE = {"Sec-Fetch-Site": "same-origin", "Accept": "text/html"}


class MemoryDoor(FrontDoor):
    """The door of a service in memory. Its world's clock moves on `advance` alone."""

    def __init__(self, world: DeskWorld) -> None:
        self._connection = world.connection
        self.world, self.book, self.board = world, world.book, world.board
        self.pulsar = world.connection.folds
        self._places = RequestPlaces(world.connection.access.take_requests, world.service.clock)
        self.sessions = Sessions(SessionTable(world.service.view), world.book, world.service.clock)

    def check_ready(self) -> None:
        """Be ready."""

    def key(self, *scopes: Scope, app: str | None = None) -> str:
        """Make a key that the book knows at once."""
        token = self.world.client.access.create(app, scopes or [Scope.OPERATOR]).token
        self.world.book.follow()
        return token


class Page(NamedTuple):
    """The answer that a browser got."""

    status: int
    headers: Mapping[str, str]
    text: str


class Visitor:
    """A browser as far as requests go: it sends forms as the console's own, and keeps cookies."""

    def __init__(self, session: aiohttp.ClientSession, address: str) -> None:
        self._session = session
        self.address = address
        self.cookie = ""

    async def get(self, path: str, **headers: str) -> Page:
        return await self.ask("GET", path, headers=headers)

    async def send(self, path: str, fields: Mapping[str, str] | Iterable[tuple[str, str]] = {}) -> Page:
        return await self.ask("POST", path, data=aiohttp.FormData(fields))

    async def ask(self, method: str, path: str, headers: Mapping[str, str | None] = {}, **given: Any) -> Page:
        """headers: None leaves one out."""
        sent = {**SAME_SITE, **({"Cookie": self.cookie} if self.cookie else {}), **headers}
        own = [(name, value) for name, value in sent.items() if value is not None]
        asked = self._session.request(method, self.address + path, allow_redirects=False, headers=own, **given)
        async with asked as answer:
            if set_cookie := answer.headers.get("Set-Cookie"):
                self.cookie = set_cookie.partition(";")[0]
            return Page(answer.status, answer.headers, await answer.text())

    async def sign_in(self, key: str, **fields: str) -> Page:
        return await self.send("/sign-in", {"key": key, **fields})


@asynccontextmanager
async def visited(door: FrontDoor, **settings: Any) -> AsyncIterator[Visitor]:
    """Serve the console for the time of the block. settings: of the server."""
    path = settings.get("unix_socket")
    connector = aiohttp.UnixConnector(str(path)) if path else aiohttp.TCPConnector(force_close=True)
    async with (
        served(door, **settings) as server,  # type: ignore[arg-type]
        aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as session,
    ):
        yield Visitor(session, f"http://127.0.0.1:{server.port}" if not path else "http://localhost")
