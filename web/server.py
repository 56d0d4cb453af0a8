"""The HTTP server of one process."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from math import inf

from aiohttp import web

from producers.desk.front_door import FrontDoor
from web import health, middleware
from web.connections import accept
from web.console.site import Console
from web.listening import ServerSettings
from web.metrics import ApiFigures
from web.routes import ROUTES
from web.routing import checked
from web.uploads import UPLOADS, Uploads

THREADS = 64
IDLE_WITHIN_S = 10.0
"""Time for open requests, and for load balancers to see /readyz, while connections are still accepted."""
END_WITHIN_S = 8.0
"""Further time for open requests. What is open then is cut off."""
_LOOK_S = 0.1


def application(door: FrontDoor, threads: Executor, settings: ServerSettings, figures: ApiFigures) -> web.Application:
    """Return the application. Raises LookupError if a route has no action."""
    shared = middleware.Threads(threads)
    console = Console(door, shared, settings)
    steps = [middleware.answer_with_problems, console.answer_people, middleware.only_hosts(settings.hosts)]
    app = web.Application(middlewares=steps)
    app[health.DOOR], app[health.STOPPING], app[middleware.FIGURES] = door, asyncio.Event(), figures
    app[UPLOADS] = Uploads(threads, app[health.STOPPING], figures)
    handlers = middleware.Handlers(door, shared)
    for route in checked(ROUTES):
        handler = handlers.handler_of(route)
        for method in ("GET", "HEAD") if route.method == "GET" else (route.method,):
            app.router.add_route(method, route.path, handler, expect_handler=middleware.wait_to_expect)
    app.router.add_routes(health.ROUTES)
    console.add_to(app)
    return app


async def serve(
    settings: ServerSettings, listener: socket.socket, door: FrontDoor, figures: ApiFigures, stop: threading.Event
) -> None:
    """Serve until `stop` is set; then let open requests end."""
    threads = ThreadPoolExecutor(THREADS, thread_name_prefix="api")
    app = application(door, threads, settings, figures)
    runner = web.AppRunner(app, shutdown_timeout=END_WITHIN_S)
    await runner.setup()
    assert runner.server is not None
    accepting = asyncio.create_task(accept(listener, runner.server, figures, settings.tls()))
    try:
        await _until(lambda: stop.is_set() or accepting.done())
        if accepting.done():
            accepting.result()  # raises what ended it
        app[health.STOPPING].set()
        await _until(lambda: not figures.in_flight, IDLE_WITHIN_S)
    finally:
        accepting.cancel()
        await asyncio.wait([accepting])  # it watches the listener
        listener.close()
        await runner.cleanup()
        threads.shutdown(wait=False, cancel_futures=True)


async def _until(condition: Callable[[], bool], within_s: float = inf) -> None:
    """Wait for a condition by looking at it."""
    end_s = time.monotonic() + within_s
    while not condition() and time.monotonic() < end_s:  # noqa: ASYNC110  # signals set an attribute and nothing else
        await asyncio.sleep(_LOOK_S)
