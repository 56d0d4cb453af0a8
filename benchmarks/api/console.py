"""Pages of the console beside many live tasks, and the API beside their sessions."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from itertools import cycle, islice
from urllib.parse import urlencode

from benchmarks.api.connection import Connection, quantile_ms
from benchmarks.api.lists import measure_show
from benchmarks.api.server import ApiServer
from benchmarks.stage import Stage
from web.console.pages import PAGES

SESSIONS = 20
BESIDE = 50
"""Sessions beside which the API is measured."""
SECONDS = 250.0
"""Each page is looked at 300 times or more in it: of fewer looks the p99 is the longest one."""
PERIOD_S = 2.0
"""Time between two updates of one session, as the console's script has it."""
FILES = ("console.css", "console.js", "idiomorph.js", "sprite.svg", "icon.svg")


def measure_console(scene: Stage, server: ApiServer, live: int) -> dict[str, float]:
    """Look at every page in sessions that stay live; then ask the API for single tasks without and with sessions."""
    cookie = _signed_in(server, scene.client.access.create(None, ["operator"]).token)
    live_pages = [page for page in PAGES if page.name != "runbooks"]  # which never change
    paths = [page.path.format(id=f"live-{live // 2:06d}") for page in live_pages]
    with _sessions(server, cookie, SESSIONS, paths) as took:
        time.sleep(SECONDS)
    for path, times in took.items():
        scene.say(f"{path}: p90 {quantile_ms(times, 0.9):.0f}, p99 {quantile_ms(times, 0.99):.0f} ms of {len(times)}")
    alone = measure_show(server, live)["show_s"]
    with _sessions(server, cookie, BESIDE, paths):
        beside = measure_show(server, live)["show_s"]
    pages = asyncio.run(_sizes(server, cookie, paths, ""))
    updates = asyncio.run(_sizes(server, cookie, paths, "X-Part: main\r\n"))
    files = sum(asyncio.run(_sizes(server, cookie, [f"/static/{name}" for name in FILES], "")))
    return {
        "pages_p99_ms": max(quantile_ms(times, 0.99) for times in took.values()),
        "pages_p50_ms": quantile_ms([each for times in took.values() for each in times], 0.5),
        "api_beside_sessions": beside / alone,
        "first_page_kb": (pages[0] + files) / 1000,
        "later_page_kb": max(pages) / 1000,
        "update_kb": max(updates) / 1000,
    }


def _signed_in(server: ApiServer, key: str) -> str:
    connection = HTTPConnection("127.0.0.1", server.port)
    headers = {"Sec-Fetch-Site": "same-origin", "Content-Type": "application/x-www-form-urlencoded"}
    connection.request("POST", "/sign-in", urlencode({"key": key}), headers)
    cookie = connection.getresponse().headers["Set-Cookie"].partition(";")[0]
    connection.close()
    return cookie


@contextmanager
def _sessions(server: ApiServer, cookie: str, count: int, paths: list[str]) -> Iterator[dict[str, list[float]]]:
    """Keep sessions live for the time of the block, each on one page after the other. Yield the seconds of updates by
    path."""
    took: dict[str, list[float]] = {path: [] for path in paths}
    ended = threading.Event()

    async def live(number: int) -> None:
        await asyncio.sleep(PERIOD_S * number / count)
        connection = await _open(server, cookie, "X-Part: main\r\n")
        for path in islice(cycle(paths), number % len(paths), None):
            if ended.is_set():
                break
            began_s = time.perf_counter()
            await connection.ask("GET", path)
            took[path].append(time.perf_counter() - began_s)
            await asyncio.sleep(PERIOD_S)
        connection.close()

    async def all_live() -> None:
        await asyncio.gather(*map(live, range(count)))

    thread = threading.Thread(target=lambda: asyncio.run(all_live()))
    thread.start()
    try:
        yield took
    finally:
        ended.set()
        thread.join()


async def _sizes(server: ApiServer, cookie: str, paths: list[str], header: str) -> list[int]:
    """Return the number of bytes of each answer, compressed."""
    connection = await _open(server, cookie, header)
    sizes = [len(await connection.ask("GET", path)) for path in paths]
    connection.close()
    return sizes


async def _open(server: ApiServer, cookie: str, header: str) -> Connection:
    head = f"HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\nAccept-Encoding: gzip\r\n{header}"
    return Connection(*await asyncio.open_connection("127.0.0.1", server.port, limit=1 << 20), head)
