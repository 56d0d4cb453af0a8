"""Throughput: workers on a standing backlog, a bare loop of the Pulsar client on the same messages, and submission."""

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from backends.pulsar.admin import PulsarAdmin
from backends.redis.client import connect
from benchmarks import bare as bare_loop
from benchmarks.resources import cpu_s
from benchmarks.stage import Stage, split, stage, targets, wait_for
from dispatcher.model.task import PushTask
from dispatcher.model.tier import Tier
from fairlane.settings import Settings
from producers.client import PushClient
from producers.control.task_changes import Changes, TaskFilter
from producers.handle import TaskHandle

WORKERS = 2
TASKS = 6
_BROKER_CPU = "process_cpu_seconds_total"
_ANSWER_S = 20.0


@dataclass(frozen=True)
class Load:
    """Size of the load."""

    chunk: int
    """Targets per envelope."""
    count: int
    """Number of targets in all."""
    seed: int
    """Seed of the targets."""


def submit_all(client: PushClient, load: Load, audience: list[str]) -> tuple[list[TaskHandle], float]:
    """Submit the audience as six tasks, two a tier; return the handles and the seconds it took."""
    tiers = [tier for tier in Tier for _ in range(TASKS // len(Tier))]
    started = time.monotonic()
    handles = []
    for tier, part in zip(tiers, split(audience, TASKS), strict=True):
        task = PushTask(
            app="bench", tier=tier, channel="null", message={"title": "Benchmark", "body": "x" * 200},
            expected_targets=max(len(part), 5_001), chunk=load.chunk,
        )  # fmt: skip
        handles.append(client.submit(task, targets=part))
    return handles, time.monotonic() - started


def settled(handles: list[TaskHandle]) -> int:
    counts = [handle.progress().targets for handle in handles]
    return sum(count.total - count.pending for count in counts)


def drain(scene: Stage, handles: list[TaskHandle], load: Load) -> dict[str, float]:
    """Return the workers' targets/s, from the first to the last settled targets seen, and the cost of an envelope.

    The tasks are paused until both workers serve, so that none works alone while the other starts.
    """
    everything = TaskFilter(app="bench")
    scene.client.set_many(everything, Changes(paused=True))
    scene.start_workers(WORKERS)
    counts: list[int] = []
    before = _costs_so_far(scene)
    scene.client.set_many(everything, Changes(paused=False))
    wait_for("the first targets", lambda: _look(handles, counts) > 0, 60, 0.01)
    first_s, first = time.monotonic(), counts[-1]
    wait_for("all targets", lambda: _look(handles, counts) >= load.count, 300, 0.02)
    rate = (load.count - first) / (time.monotonic() - first_s)
    own_calls = len(counts) * len(handles)
    spent = _costs_of_each(before, _costs_so_far(scene), load.count // load.chunk, load.count, own_calls)
    return {"workers_targets_s": rate, **spent}


def _look(handles: list[TaskHandle], counts: list[int]) -> int:
    counts.append(settled(handles))
    return counts[-1]


def bare_rate(scene: Stage, lanes: list[str], load: Load, processes: int) -> float:
    """Return the targets/s of processes that only receive and acknowledge these messages.

    They decode them, too, if chunks are large.
    """
    admin = PulsarAdmin(scene.settings.pulsar)
    for lane in lanes:
        admin.create_subscription(lane, bare_loop.NAME)
    command = [sys.executable, "-m", "benchmarks.bare", "decode" if load.chunk > 1 else "plain"]
    parts = [lanes[number::processes] for number in range(processes)]
    loops = [subprocess.Popen([*command, *part], env=scene.crew.environment, stdout=subprocess.PIPE) for part in parts]
    answers = [json.loads(process.communicate(timeout=300)[0]) for process in loops]
    for lane in lanes:
        admin.delete_subscription(lane, bare_loop.NAME)
    received = sum(answer["received"] for answer in answers)
    if received < load.count // load.chunk:
        scene.say(f"the bare loop received only {received:,} envelopes")
    return float(load.chunk * received / max(answer["busy_s"] for answer in answers))


def run(settings: Settings, load: Load, say: Callable[[str], None]) -> dict[str, float]:
    """Do one run: submit; then process the same messages with one bare loop, two at once, and the two workers."""
    audience = targets(load.count, load.seed)
    with stage(settings, say) as scene:
        handles, submit_s = submit_all(scene.client, load, audience)
        lanes = [handle.progress().lane for handle in handles]
        single, double = (bare_rate(scene, lanes, load, processes) for processes in (1, WORKERS))
        drained = drain(scene, handles, load)
    workers = drained["workers_targets_s"]
    return {
        "submit_targets_s": load.count / submit_s,
        **drained,
        "one_bare_loop_targets_s": single,
        "two_bare_loops_targets_s": double,
        "workers_to_one_bare_loop": workers / single,
        "workers_to_two_bare_loops": workers / double,
    }


@dataclass(frozen=True)
class Costs:
    """CPU seconds so far."""

    workers_s: float
    broker_s: float
    redis_s: float
    redis_calls: int
    """Requests that Redis has read (a pipeline that arrives at once is one)."""


def _costs_so_far(scene: Stage) -> Costs:
    """Return the costs so far of the stage's workers, and of servers that nobody else should be using."""
    with closing(connect(scene.settings.redis)) as redis:
        info: dict[str, Any] = redis.info()
    return Costs(
        sum(cpu_s(process.pid) for process in scene.crew.members.values()),
        _broker_s(scene.settings.pulsar.admin_address),
        info["used_cpu_user"] + info["used_cpu_sys"],
        info["total_reads_processed"],
    )


def _costs_of_each(before: Costs, after: Costs, envelopes: int, targets: int, own_calls: int) -> dict[str, float]:
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


def default_count(chunk: int) -> int:
    """Return enough targets for several seconds of work: a million at one an envelope, 15 million at 500."""
    return min(1_000_000 * chunk, 15_000_000)
