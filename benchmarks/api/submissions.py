"""Small tasks over HTTP, beside the same tasks submitted by the client library in this process."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.api.connection import Connection, at_once, quantile_ms
from benchmarks.api.server import APP, ApiServer, one_core
from benchmarks.stage import Stage
from dispatcher.model.task import PushTask

AT_ONCE = 16
TARGETS = tuple(f"{number:064x}" for number in range(10))
SECONDS = 10.0
ROUNDS = 2


def measure_submissions(scene: Stage, server: ApiServer, tier: str) -> dict[str, float]:
    """Submit tasks of 10 targets, 16 at once: by HTTP and by the library in turn, each as often as the other."""
    fields = {"channel": "null", "tier": tier, "message": {"title": "Benchmark", "body": "x" * 200}}
    took: list[float] = []
    submitted = 0
    for _ in range(ROUNDS):
        took += _by_http(server, fields)
        submitted += _by_library(scene, fields)
    seconds = ROUNDS * SECONDS
    return {
        f"post_{tier}_s": len(took) / seconds,
        f"post_{tier}_p99_ms": quantile_ms(took, 0.99),
        f"library_{tier}_s": submitted / seconds,
        f"post_{tier}_to_library": len(took) / submitted,
    }


def _by_http(server: ApiServer, fields: dict[str, Any]) -> list[float]:
    document = {**fields, "targets": TARGETS}

    async def ask(connection: Connection, _: int) -> None:
        await connection.ask("POST", "/v1/tasks", document)

    return asyncio.run(at_once(server.port, server.token, AT_ONCE, SECONDS, ask))


def _by_library(scene: Stage, fields: dict[str, Any]) -> int:
    task, until_s, ended = PushTask(app=APP, **fields), time.monotonic() + SECONDS, threading.Event()

    def submit_on(_: int) -> int:
        count = 0
        while time.monotonic() < until_s and not ended.is_set():
            try:
                scene.client.submit(task, TARGETS)
            except BaseException:
                ended.set()
                raise
            count += 1
        return count

    with one_core(), ThreadPoolExecutor(AT_ONCE) as threads:
        return sum(threads.map(submit_on, range(AT_ONCE)))
