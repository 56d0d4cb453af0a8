"""A worker that delivers over the channel `fcm` or `http`, with engine, ledger and records.

Over fcm it makes the requests of the client alone. The server answers without reading them; a fake FCM only issues the
access token. Over http it posts an envelope of one target at a time.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.delivery.client_alone import Load, server, serving
from benchmarks.delivery.cores import CLIENT
from benchmarks.delivery.frame_server import Orders
from benchmarks.delivery.post_server import PostOrders
from benchmarks.resources import cpu_s
from benchmarks.stage import Stage, stage, wait_for
from benchmarks.throughput import settled
from dispatcher.model.task import PushTask
from dispatcher.model.tier import Tier
from fairlane.settings import Settings
from lab.fake.certificates import make_tls_files
from lab.fake.process import FakeFcm, running
from producers.control.task_changes import Changes, TaskFilter
from producers.handle import TaskHandle

CHUNKS = {"fcm": 500, "http": 1}
"""Targets of an envelope, by channel."""
TASKS = 3
TEXT = "World " * 40
"""Makes a body of about 420 bytes."""


def run(settings: Settings, load: Load, latency_ms: float, say: Callable[[str], None]) -> dict[str, float]:
    """Measure once, with a server, a tenant and a worker of its own. Returns figures by name."""
    with TemporaryDirectory(prefix="fairlane-bench-") as name, stage(settings, say) as scene:
        folder = Path(name)
        make_tls_files(folder, "127.0.0.1")
        orders = Orders(name, latency_ms, load.streams)
        with serving(orders) as (url, ended), running(folder / "issuer") as issuer:
            scene.crew.environment.update(_channel(issuer, url, folder, load))
            figures = _drained(scene, load, "fcm")
        return _with_server(figures, ended[0])


def run_posts(settings: Settings, load: Load, latency_ms: float, say: Callable[[str], None]) -> dict[str, float]:
    """Measure the channel `http` once; see run."""
    with stage(settings, say) as scene, server("post_server", PostOrders(latency_ms)) as (port, ended):
        scene.crew.environment["FAIRLANE_HTTP_URL"] = f"http://127.0.0.1:{port}/push"
        figures = _drained(scene, load, "http")
    return _with_server(figures, ended[0])


def _with_server(figures: dict[str, float], ended: dict[str, float]) -> dict[str, float]:
    return {**figures, "server_cpu_us": ended["cpu_s"] / ended["answered"] * 1e6}


def _channel(issuer: FakeFcm, url: str, folder: Path, load: Load) -> dict[str, str]:
    """Return the variable with the settings of the channel. Both servers' authorities are in one file."""
    authorities = folder / "authorities.pem"
    authorities.write_bytes(Path(issuer.served["ca_file"]).read_bytes() + (folder / "ca.pem").read_bytes())
    app = {
        "credentials": issuer.served["credentials"],
        "url": url.partition("/v1/")[0],
        "ca_file": str(authorities),
        "connections": load.connections,
        "streams": load.streams,
    }
    return {"FAIRLANE_CHANNELS_FCM": json.dumps({"apps": {"bench": app}})}


def _drained(scene: Stage, load: Load, channel: str) -> dict[str, float]:
    """Return rate and CPU of a worker on a standing backlog, after a tenth of it."""
    handles = [_submit(scene, load.requests // TASKS, tier, channel) for tier in Tier]
    everything = TaskFilter(app="bench")
    scene.client.set_many(everything, Changes(paused=True))
    with _on_its_core():
        scene.crew.join("worker-0")
    wait_for("the worker to serve", lambda: len(scene.serving()) == 1, 60)
    scene.client.set_many(everything, Changes(paused=False))
    chunk = CHUNKS[channel]
    total = chunk * (load.requests // TASKS // chunk) * TASKS
    wait_for("a tenth of the targets", lambda: settled(handles) >= total // 10, 120, 0.01)
    pid = scene.crew.members["worker-0"].pid
    first, began_s, cpu_before_s = settled(handles), time.monotonic(), cpu_s(pid)
    wait_for("all targets", lambda: settled(handles) >= total, 300, 0.02)
    requests, took_s, used_s = total - first, time.monotonic() - began_s, cpu_s(pid) - cpu_before_s
    sent = sum(handle.progress().targets.sent for handle in handles)
    return {"requests_s": requests / took_s, "cpu_us": used_s / requests * 1e6, "not_sent": total - sent}


def _submit(scene: Stage, count: int, tier: Tier, channel: str) -> TaskHandle:
    message, chunk = {"title": "Benchmark", "body": TEXT}, CHUNKS[channel]
    task = PushTask(app="bench", tier=tier, channel=channel, message=message, chunk=chunk, expected_targets=10_000)
    whole = count // chunk * chunk
    return scene.client.submit(task, targets=[f"device-token-{tier}-{number:012d}" for number in range(whole)])


@contextmanager
def _on_its_core() -> Iterator[None]:
    """Let processes that are started here keep to the client's core, where the system allows it."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {CLIENT})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
