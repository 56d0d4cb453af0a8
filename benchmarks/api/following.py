"""How soon a change reaches the clients that follow a task, and a revoked key is refused."""

import asyncio
import time
from http import HTTPStatus

import msgspec

from benchmarks.api.connection import Connection, quantile_ms
from benchmarks.api.server import APP, ApiServer
from benchmarks.stage import Stage
from dispatcher.model.errors import FairlaneError
from dispatcher.model.task import PushTask

CLIENTS = 500
CHANGES = 6
WITHIN_S = 30.0
_EVERY_S = 0.005
_DATA = b"data: "


def measure_events(scene: Stage, server: ApiServer) -> dict[str, float]:
    """Follow a task with 500 clients, pause and resume it: seconds from the change to the event of each client."""
    task = PushTask(id="followed", app=APP, tier="low", channel="null", message="hello", cap=1)
    scene.client.submit(task, [f"{number:064x}" for number in range(100_000)])
    server.forget_peak()
    waits = asyncio.run(_follow(server))
    return {
        "event_p50_ms": quantile_ms(waits, 0.5),
        "event_p99_ms": quantile_ms(waits, 0.99),
        "event_max_ms": 1000 * max(waits),
        "events_mib": server.peak_mib(),
    }


async def _follow(server: ApiServer) -> list[float]:
    opened = [await Connection.open(server.port, server.token) for _ in range(CLIENTS)]
    control = await Connection.open(server.port, server.token)
    try:
        for connection in opened:
            connection.send("GET", "/v1/tasks/~followed/events")
        for connection in opened:
            status, _ = await connection.head()
            if status != HTTPStatus.OK:
                raise FairlaneError(f"A client that would follow the task was answered with {status}.")
        waits: list[float] = []
        for number in range(CHANGES):
            waits += await _change(control, opened, paused=number % 2 == 0)
        return waits
    finally:
        for connection in (control, *opened):
            connection.close()


async def _change(control: Connection, opened: list[Connection], *, paused: bool) -> list[float]:
    began_s = time.perf_counter()
    async with asyncio.timeout(WITHIN_S), asyncio.TaskGroup() as tasks:
        tasks.create_task(control.ask("PATCH", "/v1/tasks/~followed", {"paused": paused}))
        seen = [tasks.create_task(_seen(connection, paused=paused)) for connection in opened]
    return [task.result() - began_s for task in seen]


async def _seen(connection: Connection, *, paused: bool) -> float:
    """Read events until one says that the task is paused, or is not. Return when it came."""
    while True:
        line = await connection.reader.readline()
        if not line:
            raise FairlaneError("A stream of events ended.")
        if line.startswith(_DATA):
            state = msgspec.json.decode(line.removeprefix(_DATA)).get("state")
            if state is not None and (state == "paused") is paused:
                return time.perf_counter()


def measure_revoked(scene: Stage, server: ApiServer) -> dict[str, float]:
    """Ask with a key until it is refused: seconds from when its revocation is stored."""
    waits = []
    for _ in range(CHANGES):
        key = scene.client.access.create(APP, ["read"])
        _until(server, key.token, HTTPStatus.OK)
        scene.client.access.revoke(key.id)
        began_s = time.perf_counter()
        _until(server, key.token, HTTPStatus.UNAUTHORIZED)
        waits.append(time.perf_counter() - began_s)
    return {"revoked_max_ms": 1000 * max(waits)}


def _until(server: ApiServer, token: str, status: HTTPStatus) -> None:
    client, until_s = ApiServer(server.port, token, server.process), time.monotonic() + WITHIN_S
    while client.ask("GET", "/v1/tasks/none")[0] not in (status, _unknown(status)):
        if time.monotonic() > until_s:
            raise FairlaneError(f"The server did not answer with {status} within {WITHIN_S:.0f} s.")
        time.sleep(_EVERY_S)


def _unknown(status: HTTPStatus) -> HTTPStatus:
    return HTTPStatus.NOT_FOUND if status == HTTPStatus.OK else status
