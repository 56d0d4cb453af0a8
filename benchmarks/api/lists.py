"""Lists and single tasks beside many live tasks."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import islice

from backends.pulsar.client import topics
from backends.redis.view import RedisView, open_view
from backends.system_clock import SystemClock
from benchmarks.api.connection import Connection, at_once, at_rate, quantile_ms
from benchmarks.api.server import APP, ApiServer
from benchmarks.stage import Stage, wait_for
from dispatcher.model.task import PushTask
from dispatcher.model.tier import TIERS
from dispatcher.wire.control import FORMAT, MAIN_WRITER, ControlRecord, Sealed
from producers.connection import Connection as ServiceConnection
from producers.submit.acceptance import accept

PATHS = (
    "/v1/tasks?limit=100",
    "/v1/tasks?limit=100&sort=eta",
    "/v1/tasks?limit=100&sort=-pending",
    "/v1/tasks?limit=100&tier=high&sort=-rate",
    "/v1/tasks?limit=100&state=paused",
    "/v1/tasks?limit=100&q=77777",
    "/v1/tasks?limit=500&channel=null&sort=id",
    "/v1/tasks?limit=100&q=none-has-this",
)
"""Lists: all, sorted, filtered, by a part of the id that few have, and one that none has."""
A_SECOND = 20.0
LISTS_S = 30.0
SHOW_S = 15.0
CONNECTIONS = 16
STOP_S = 20.0
READ_S = 300.0
_BATCH = 1_000


def make_live(scene: Stage, count: int) -> None:
    """Put live tasks of all tiers into the control topic, without targets in any lane; wait until the view has them.

    They start a day later, so that workers leave their lanes alone.
    """
    connection = ServiceConnection(scene.settings)
    with closing(connection):
        services = connection.services()
        every = _records(scene, count)
        while records := list(islice(every, _BATCH)):
            positions = services.control.append_many(records)
            services.registry.control.apply_all(list(zip(positions, records, strict=True)))
    with closing(open_view(scene.settings.redis)) as view:
        wait_for("the live tasks", lambda: int(view.command("ZCARD", view.keys.tasks)) >= count, 120)


def _records(scene: Stage, count: int) -> Iterator[ControlRecord]:
    names, now_ms, now = topics(scene.settings.pulsar), SystemClock().wall_ms(), datetime.now(UTC)
    for number in range(count):
        targets, starts = 10 + number * 7_919 % 100_000, now + timedelta(days=1, seconds=number % 3_600)
        task = PushTask(app=APP, tier=TIERS[number % 3], channel="null", message="hello", start_at=starts)
        yield accept(task, f"live-{number:06d}", targets, now_ms, names)
        if number % 2:
            yield Sealed(
                format=FORMAT, task=f"live-{number:06d}", targets=targets, refused=0, digest="", writers=[MAIN_WRITER],
                submitter="",
            )  # fmt: skip


def redis_share(scene: Stage, meanwhile: Callable[[], object]) -> float:
    """Return the part of a core that Redis uses during a call."""
    with closing(open_view(scene.settings.redis)) as view:
        before_s, began_s = _cpu_s(view), time.monotonic()
        meanwhile()
        return (_cpu_s(view) - before_s) / (time.monotonic() - began_s)


def _cpu_s(view: RedisView) -> float:
    info = view.client.info("cpu")
    return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])


def measure_first_read(server: ApiServer) -> dict[str, float]:
    """Wait until the server, which is ready, has read all live tasks."""
    began_s = time.monotonic()
    wait_for("all tasks to be read", lambda: server.ask("GET", "/v1/tasks?limit=1")[1].get("complete"), READ_S)
    return {"first_read_s": time.monotonic() - began_s}


def measure_lists(scene: Stage, server: ApiServer) -> dict[str, float]:
    """Ask for lists at a rate; then again while the workers are stopped, so that Redis works for the server alone."""
    took: dict[str, list[float]] = {}

    def ask(seconds: float) -> None:
        took.update(asyncio.run(at_rate(server.port, server.token, A_SECOND, seconds, PATHS)))

    ask(2.0)
    ask(LISTS_S)
    every = [each for times in took.values() for each in times]
    for path, times in took.items():
        scene.say(f"{path}: p99 {quantile_ms(times, 0.99):.0f} ms")
    scene.crew.stop(deadline_s=STOP_S)
    return {
        "lists_p50_ms": quantile_ms(every, 0.5),
        "lists_p99_ms": quantile_ms(every, 0.99),
        "lists_mib": server.peak_mib(),
        "lists_redis_percent": 100 * redis_share(scene, lambda: ask(LISTS_S)),
    }


def measure_show(server: ApiServer, live: int) -> dict[str, float]:
    """Ask for single tasks as fast as they come."""

    async def ask(connection: Connection, number: int) -> None:
        await connection.ask("GET", f"/v1/tasks/~live-{number * 7_919 % live:06d}")

    took = asyncio.run(at_once(server.port, server.token, CONNECTIONS, SHOW_S, ask))
    return {
        "show_s": len(took) / SHOW_S,
        "show_p50_ms": quantile_ms(took, 0.5),
        "show_p99_ms": quantile_ms(took, 0.99),
    }
