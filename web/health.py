"""Routes without a key: is it alive, is it ready, which version is it, what can it do."""

import asyncio
from functools import cache
from importlib.resources import files

from aiohttp import web

from dispatcher.model.errors import NotReady
from fairlane import __version__
from producers.desk.front_door import FrontDoor

DOOR = web.AppKey("door", FrontDoor)
STOPPING = web.AppKey("stopping", asyncio.Event)


async def live(_: web.Request) -> web.Response:
    """The process answers."""
    return web.json_response({"status": "live"})


async def ready(request: web.Request) -> web.Response:
    """Requests can be served: the view is complete, keys are known, and the server does not stop. Else 503."""
    if request.app[STOPPING].is_set():
        raise NotReady("This server stops.", "Ask another one.")
    await asyncio.get_running_loop().run_in_executor(None, request.app[DOOR].check_ready)
    return web.json_response({"status": "ready"})


async def version(_: web.Request) -> web.Response:
    """The version of Fairlane."""
    return web.json_response({"version": __version__})


@cache
def _document() -> bytes:
    return files("web").joinpath("openapi.json").read_bytes()


async def openapi(_: web.Request) -> web.Response:
    """This document."""
    return web.Response(body=_document(), content_type="application/json")


ROUTES = (
    web.get("/livez", live), web.get("/readyz", ready), web.get("/version", version),
    web.get("/openapi.json", openapi),
)  # fmt: skip
