"""Measures the cost of work: CPU of the workers, of the broker and of Redis, and the number of calls of Redis."""

import urllib.request
from dataclasses import dataclass
from typing import Any

from backends.redis.client import connect
from benchmarks.resources import cpu_s
from benchmarks.stage import Stage

_BROKER_CPU = "process_cpu_seconds_total"
_ANSWER_S = 20.0


@dataclass(frozen=True)
class Costs:
    """CPU seconds so far."""

    workers_s: float
    broker_s: float
    redis_s: float
    redis_calls: int
    """Requests that Redis has read (a pipeline that arrives at once is one)."""


def so_far(scene: Stage) -> Costs:
    """Return the costs so far of the stage's workers, and of servers that nobody else should be using."""
    redis = connect(scene.settings.redis)
    try:
        info: dict[str, Any] = redis.info()
    finally:
        redis.close()
    return Costs(
        sum(cpu_s(process.pid) for process in scene.crew.members.values()),
        _broker_s(scene.settings.pulsar.admin_address),
        info["used_cpu_user"] + info["used_cpu_sys"],
        info["total_reads_processed"],
    )


def each(before: Costs, after: Costs, envelopes: int, targets: int, own_calls: int) -> dict[str, float]:
    """Return microseconds per envelope, and calls of Redis per target. `own_calls`: those of the benchmark itself."""
    us = 1e6 / envelopes
    return {
        "workers_us_envelope": (after.workers_s - before.workers_s) * us,
        "broker_us_envelope": (after.broker_s - before.broker_s) * us,
        "redis_us_envelope": (after.redis_s - before.redis_s) * us,
        "redis_calls_target": max(0, after.redis_calls - before.redis_calls - own_calls) / targets,
    }


def _broker_s(admin_url: str) -> float:
    with urllib.request.urlopen(admin_url.rstrip("/") + "/metrics/", timeout=_ANSWER_S) as answer:
        lines = answer.read().decode().splitlines()
    samples = [line for line in lines if line.startswith(_BROKER_CPU)]
    return float(samples[0].rpartition(" ")[2]) if samples else 0.0
