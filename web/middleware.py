"""Steps that every request passes: an id, a known host, a key, its place under the limits, and errors as problems."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any, TypeVar

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from dispatcher.access.principal import Principal
from producers.desk.access_book import UnknownKey
from producers.desk.front_door import FrontDoor
from producers.desk.guard import check_right
from web import problems
from web.bodies import Room, parse_json, parse_query, read_body
from web.encoding import NDJSON, encoded
from web.health import STOPPING
from web.metrics import ApiFigures
from web.problems import ProblemError
from web.routing import Call, Route, Stream
from web.streams import send_stream
from web.uploads import UPLOADS

FIGURES = web.AppKey("figures", ApiFigures)
_CLOSING = (400, 401, 408, 413)
"""Statuses after which the connection is closed: the rest of the body is not read, or nobody known has sent it."""
_AT_ONCE = 48
"""Requests of one app in threads at once. The others wait, so that one app cannot take all threads."""
_LOOK_S = 0.05
_ACTION = web.RequestKey("action", str)
R = TypeVar("R")


@web.middleware
async def answer_with_problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Give the request an id, count it, and turn every error into a problem."""
    request[problems.ID] = id_ = problems.new_id()
    figures, began_s = request.app[FIGURES], time.monotonic()
    figures.in_flight += 1
    try:
        response = await handler(request)
    except Exception as error:
        problem = problems.problem_of(error)
        if problem.kind is problems.INTERNAL:
            problems.log_failure(request)
        response = problem.response(id_)
    finally:
        figures.in_flight -= 1
    figures.note(request.get(_ACTION, "none"), response.status, time.monotonic() - began_s)
    if not response.prepared:
        response.headers.update({**problems.HEADERS, **response.headers, problems.REQUEST_ID: id_})
        if response.status in _CLOSING or request.app[STOPPING].is_set():
            response.force_close()
    return response


def only_hosts(names: frozenset[str]) -> Middleware:
    """Return a middleware that refuses requests for other hosts: a page in a browser may resolve to this server."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        asked = [request.headers.get("Host", "")]
        if asked[0] and request.host != asked[0]:  # of an absolute address in the request line
            asked.append(request.host)
        if unknown := [host for host in asked if _name(host) not in names]:
            detail = f"This server does not answer for the host {unknown[0]!r}."
            raise ProblemError(problems.of_status(421), detail, "Start it with `--allow-host`.")
        return await handler(request)

    return check


def _name(host: str) -> str:
    return (host if host.endswith("]") else host.rsplit(":", 1)[0]).lower()


async def wait_to_expect(_: web.Request) -> None:
    """Leave it to the reader of a body to ask for it: a client without a key is refused before it sends one."""


class Threads:
    """Runs what may wait for servers, so that no app takes all threads."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._places: defaultdict[str | None, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(_AT_ONCE))

    async def run(self, app: str | None, function: Callable[[], R]) -> R:
        """Return what a function returns. app: for whom; empty: for who acts for all, None: it is not known yet."""
        async with self._places[app]:
            return await asyncio.get_running_loop().run_in_executor(self._executor, function)


class Handlers:
    """Makes the functions of the server for routes."""

    def __init__(self, door: FrontDoor, threads: Threads) -> None:
        self._door = door
        self._threads = threads
        self._room = Room()

    def handler_of(self, route: Route) -> Handler:
        """Return the function of a route."""

        async def handle(request: web.Request) -> web.StreamResponse:
            request[_ACTION] = route.action
            principal = await principal_of(self._door, _token(request))
            check_right(principal, route.action)
            query: Any = parse_query(request.query.items(), route.query or _NoQuery)
            upload = route.upload if request.content_type == NDJSON else None

            def answer(body: Any) -> Any:
                desks = self._door.desks(principal, request[problems.ID])
                return (upload or route.handle)(Call(desks, request.match_info, query, body, request.headers))

            def answer_whole(body: bytearray) -> web.Response | Stream:
                if route.body is None:
                    self._door.take_request(principal)
                made = answer(None if route.body is None else parse_json(body, route.body))
                return made if isinstance(made, Stream) else encoded(made, request.headers.get("Accept", ""))

            if route.body is not None:
                await self._threads.run(principal.app, partial(self._door.take_request, principal))
            if upload is not None:
                return encoded(await request.app[UPLOADS].receive(request, principal.app, answer), "")
            with self._room.for_body() as body:
                if route.body is not None:
                    await read_body(request, route.max_bytes, self._room, body)
                answered = await self._threads.run(principal.app, partial(answer_whole, body))
            if isinstance(answered, Stream):
                headers = {**problems.HEADERS, problems.REQUEST_ID: request[problems.ID]}
                return await send_stream(request, answered, headers, lambda: self._door.principal(_token(request)))
            return answered

        return handle


async def principal_of(door: FrontDoor, token: str) -> Principal:
    """Return who asks. An unknown key may be new: it is unknown once the door has looked for keys after it came."""
    came_s = time.monotonic()
    while True:
        try:
            return door.principal(token)
        except UnknownKey as unknown:
            if unknown.age_s < time.monotonic() - came_s:
                raise
        await asyncio.sleep(_LOOK_S)


class _NoQuery(msgspec.Struct, forbid_unknown_fields=True):
    pass


def _token(request: web.Request) -> str:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
