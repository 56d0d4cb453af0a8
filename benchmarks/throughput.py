"""Throughput: workers on a standing backlog, a bare loop of the Pulsar client on the same messages, and submission."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from backends.pulsar.admin import PulsarAdmin
from benchmarks import bare as bare_loop
from benchmarks import costs
from benchmarks.stage import Stage, split, stage, targets, wait_for
from dispatcher.model.task import PushTask
from dispatcher.model.tier import Tier
from fairlane.settings import Settings
from producers.client import PushClient
from producers.control.task_changes import Changes, TaskFilter
from producers.handle import TaskHandle

WORKERS = 2
TASKS = 6


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
    before = costs.so_far(scene)
    scene.client.set_many(everything, Changes(paused=False))
    wait_for("the first targets", lambda: _look(handles, counts) > 0, 60, 0.01)
    first_s, first = time.monotonic(), counts[-1]
    wait_for("all targets", lambda: _look(handles, counts) >= load.count, 300, 0.02)
    rate = (load.count - first) / (time.monotonic() - first_s)
    own_calls = len(counts) * len(handles)
    spent = costs.each(before, costs.so_far(scene), load.count // load.chunk, load.count, own_calls)
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
        one, two = (bare_rate(scene, lanes, load, processes) for processes in (1, WORKERS))
        drained = drain(scene, handles, load)
    workers = drained["workers_targets_s"]
    return {
        "submit_targets_s": load.count / submit_s,
        **drained,
        "one_bare_loop_targets_s": one,
        "two_bare_loops_targets_s": two,
        "workers_to_one_bare_loop": workers / one,
        "workers_to_two_bare_loops": workers / two,
    }


def default_count(chunk: int) -> int:
    """Return enough targets for several seconds of work: a million at one an envelope, 15 million at 500."""
    return min(1_000_000 * chunk, 15_000_000)
