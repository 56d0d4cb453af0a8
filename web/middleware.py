"""What every request passes: an id, a known host, a key, its place under the limits, and errors as problems."""

import asyncio
import logging
import secrets
from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Any

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from dispatcher.model.errors import FairlaneError
from producers.desk.front_door import FrontDoor
from producers.desk.guard import check_right
from web import problems
from web.bodies import parse_json, parse_query, read_body
from web.encoding import encoded
from web.routing import Call, Route, Stream
from web.streams import send_stream

REQUEST_ID = "X-Request-Id"
_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
_ID = web.RequestKey("request_id", str)
_log = logging.getLogger(__name__)


@web.middleware
async def answer_with_problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Give the request an id, and turn every error into a problem."""
    request[_ID] = id_ = secrets.token_hex(8)
    try:
        response = await handler(request)
    except FairlaneError as error:
        response = _problem(problems.problem_of(error, id_), problems.headers_of(error))
    except problems.ProblemError as error:
        document = problems.problem(error.kind, id_, error.detail, error.next_step)
        response = _problem(document, error.headers)
        if error.kind.status in (408, 413):
            response.force_close()  # the rest of the body is not read
    except web.HTTPException as error:  # of the router: 404, 405
        headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
        response = _problem(problems.problem(problems.of_status(error.status), id_, error.reason), headers)
    except Exception:
        _log.exception("request %s failed: %s %s", id_, request.method, request.path)
        response = _problem(problems.internal(id_), {})
    if not response.prepared:
        response.headers.update(_HEADERS)
        response.headers[REQUEST_ID] = id_
    return response


def only_hosts(names: frozenset[str]) -> Middleware:
    """Return a middleware that refuses requests for other hosts: a page in a browser may resolve to this server."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        host = request.host.rsplit(":", 1)[0] if not request.host.endswith("]") else request.host
        if host.lower() not in names:
            detail = f"This server does not answer for the host {host!r}."
            raise problems.ProblemError(problems.of_status(421), detail, "Start it with `--allow-host`.")
        return await handler(request)

    return check


def handler_of(route: Route, door: FrontDoor, threads: Executor) -> Handler:
    """Return the function of the server for a route."""

    async def handle(request: web.Request) -> web.StreamResponse:
        loop = asyncio.get_running_loop()
        principal = door.principal(_token(request))
        check_right(principal, route.action)
        await loop.run_in_executor(threads, door.take_request, principal)
        query: Any = parse_query(request.query, [name for name, _ in request.query.items()], route.query or _NoQuery)
        body: Any = None
        if route.body is not None:
            body = parse_json(await read_body(request, route.max_bytes), route.body)
        call = Call(door.desks(principal, request[_ID]), request.match_info, query, body, request.headers)
        answer = await loop.run_in_executor(threads, route.handle, call)
        if isinstance(answer, Stream):
            headers = {**_HEADERS, REQUEST_ID: request[_ID]}
            return await send_stream(request, answer, headers, lambda: door.principal(_token(request)))
        return encoded(answer, request.headers.get("Accept", ""))

    return handle


class _NoQuery(msgspec.Struct, forbid_unknown_fields=True):
    pass


def _token(request: web.Request) -> str:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _problem(document: Mapping[str, Any], headers: Mapping[str, str]) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(document),
        status=document["status"],
        headers=dict(headers),
        content_type=problems.CONTENT_TYPE,
    )
