"""How long small tasks of an app take while the endpoint of another app of the same channel hangs."""

import json
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from benchmarks.delivery.judged import HANGS_MS, LATENCY_MS, tokens
from benchmarks.stage import Stage, stage, wait_for
from dispatcher.model.task import PushTask
from dispatcher.model.tier import Tier
from fairlane.settings import Settings
from lab.fake.process import FakeFcm, running

RATE = 500
"""Targets/s of the app whose endpoint will hang."""
BACKLOG = 60_000
TARGETS = 10
CALLERS = 4
MEASURED_S = 20.0


def run(settings: Settings, say: Callable[[str], None]) -> dict[str, float]:
    """Return the times of one app's tasks, before and while the other's endpoint hangs."""
    with stage(settings, say) as scene, running(scene.folder / "a") as hanging, running(scene.folder / "b") as beside:
        _begin(scene, {"hanging": hanging, "beside": beside})
        backlog = PushTask(
            app="hanging", tier=Tier.HIGH, channel="fcm", message={"title": "Benchmark"}, chunk=100, cap=RATE
        )
        scene.client.submit(backlog, targets=tokens(BACKLOG))
        wait_for("the first targets", lambda: hanging.ask("GET", "counts")["accepted"] > RATE, 60)
        before = _measure(scene)
        hanging.ask("PUT", "rules", {"latency_ms": HANGS_MS})
        during = _measure(scene)
    return {
        **{f"{name}_before": value for name, value in before.items()},
        **{f"{name}_during": value for name, value in during.items()},
        **{f"{name}_ratio": during[name] / before[name] for name in before},
    }


def _begin(scene: Stage, apps: dict[str, FakeFcm]) -> None:
    """Start a worker that sends each app's targets to its own fake."""
    channel: dict[str, object] = {}
    for app, fake in apps.items():
        fake.ask("PUT", "rules", {"latency_ms": LATENCY_MS})
        channel |= json.loads(fake.environment([app])["FAIRLANE_CHANNELS_FCM"])["apps"]
    scene.crew.environment["FAIRLANE_CHANNELS_FCM"] = json.dumps({"apps": channel})
    scene.start_workers(1)


def _measure(scene: Stage) -> dict[str, float]:
    """Return how long tasks take from the call of submit until all targets are known to be sent."""
    until_s = time.monotonic() + MEASURED_S

    def tasks_of_caller(_: int) -> list[float]:
        times: list[float] = []
        while time.monotonic() < until_s:
            times.append(_time_of_task(scene))
        return times

    with ThreadPoolExecutor(CALLERS) as pool:
        times_ms = [each * 1_000 for caller in pool.map(tasks_of_caller, range(CALLERS)) for each in caller]
    percentiles = statistics.quantiles(times_ms, n=100)
    return {"p50_ms": percentiles[49], "p99_ms": percentiles[98]}


def _time_of_task(scene: Stage) -> float:
    task = PushTask(app="beside", tier=Tier.HIGH, channel="fcm", message={"title": "Benchmark"}, chunk=TARGETS)
    began_s = time.monotonic()
    handle = scene.client.submit(task, targets=tokens(TARGETS))
    wait_for("a task's targets", lambda: handle.progress().targets.sent == TARGETS, 60, 0.005)
    return time.monotonic() - began_s
