"""The bytes and CPU that a plan predicts, beside an estate that carries the load of `benchmarks throughput`."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import urllib3

from benchmarks.estate.servers import SHAPE, EstateServers, rehearsal
from benchmarks.resources import cpu_s
from benchmarks.stage import stage, targets
from benchmarks.throughput import Load, drain, submit_all
from estate.facts.metrics_text import parse_metrics
from estate.sizing.load import load_of
from estate.sizing.needs import ClusterNeeds, parse_machines
from fairlane.settings import Settings

MACHINES = "3x8GiB,2cpu"
TARGET_BYTES = 64
REST_S = 10.0
BYTES = "bookie_WRITE_BYTES"
"""Bytes of entries that a bookie was given."""


@dataclass(frozen=True)
class Spent:
    """CPU seconds and bytes of an estate so far."""

    brokers_s: float
    bookies_s: float
    stored_bytes: float

    def times(self, factor: float) -> "Spent":
        return Spent(self.brokers_s * factor, self.bookies_s * factor, self.stored_bytes * factor)

    def since(self, before: "Spent") -> "Spent":
        return Spent(
            self.brokers_s - before.brokers_s,
            self.bookies_s - before.bookies_s,
            self.stored_bytes - before.stored_bytes,
        )


def run(settings: Settings, load: Load, say: Callable[[str], None]) -> dict[str, float]:
    """Do one run on an estate of its own: submit six tasks, and send them with two workers.

    The same is done before without being measured, since Java compiles what it runs.
    """
    with rehearsal(settings) as (estate, here):
        run_on(estate, here, load, say)
        return run_on(estate, here, load, say)


def run_on(estate: EstateServers, settings: Settings, load: Load, say: Callable[[str], None]) -> dict[str, float]:
    """Return the figures of one load; the CPU that the servers use at rest is subtracted."""
    audience = targets(load.count, load.seed)
    with stage(settings, say) as scene:
        at_rest = _at_rest(estate)
        before, began_s = _so_far(estate), time.monotonic()
        handles, _ = submit_all(scene.client, load, audience)
        rate = drain(scene, handles, load)["workers_targets_s"]
        took_s = time.monotonic() - began_s
        spent = _so_far(estate).since(before).since(at_rest.times(took_s / REST_S))
    return {"workers_targets_s": rate, **compared(spent, took_s, load)}


def compared(spent: Spent, took_s: float, load: Load) -> dict[str, float]:
    """Return measured and predicted figures of one broker and one bookie, and their ratios."""
    needs = ClusterNeeds(
        targets_per_s=load.count / took_s,
        machines=parse_machines(MACHINES),
        chunk=load.chunk,
        target_bytes=TARGET_BYTES,
    )
    planned = load_of(needs)
    rows = {
        "bytes_s_bookie": (spent.stored_bytes / took_s / SHAPE.bookies, planned.stored_bytes_per_s / SHAPE.bookies),
        "cpus_broker": (spent.brokers_s / took_s / SHAPE.brokers, planned.broker_cpus / SHAPE.brokers),
        "cpus_bookie": (spent.bookies_s / took_s / SHAPE.bookies, planned.bookie_cpus / SHAPE.bookies),
    }
    figures: dict[str, float] = {}
    for name, (measured, predicted) in rows.items():
        figures |= {name: measured, f"{name}_predicted": predicted, f"{name}_ratio": predicted / measured}
    return figures


def _at_rest(estate: EstateServers) -> Spent:
    """Return what the servers spend in some seconds without load."""
    before = _so_far(estate)
    time.sleep(REST_S)
    return _so_far(estate).since(before)


def _so_far(estate: EstateServers) -> Spent:
    servers = estate.estate().servers
    used = {name: cpu_s(server.pid) for name, server in servers.items()}
    bookies = [name for name in servers if name.startswith("bookie")]
    return Spent(
        sum(seconds for name, seconds in used.items() if name.startswith("broker")),
        sum(used[name] for name in bookies),
        sum(_stored(estate.bookie_http(name)) for name in bookies),
    )


def _stored(url: str) -> float:
    text = urllib3.request("GET", f"{url}/metrics", timeout=10.0).data.decode()
    return parse_metrics(text).total(BYTES) or 0.0
