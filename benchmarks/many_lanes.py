"""Ten thousand live lanes of which twenty are busy, against the twenty alone.

Also measures what an idle worker costs with them, and how soon a new high task is sent among them.

The speed of a shared machine varies from minute to minute, so the twenty are measured alone before and after.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from statistics import median

from benchmarks.latency import PROBES, quantiles_ms, waits_of_probes
from benchmarks.many_tasks import topics_left
from benchmarks.resources import IDLE_PREFIX, cpu_s, open_task, rate_of, resident_mib
from benchmarks.stage import Stage, stage, targets, wait_for
from dispatcher.model.task import PushTask
from dispatcher.model.tier import TIERS
from fairlane.settings import Settings
from producers.control.task_changes import Changes, TaskFilter
from producers.handle import TaskHandle

BUSY, WORKERS = 20, 2
REPEATS = 3
"""Backlogs in each of the three phases; the first phase has one more, for start-up."""
CLEARED_S = 300.0
CONCURRENCY = 12
IDLE_WINDOW_S = 20.0


@dataclass(frozen=True)
class ManyLanes:
    """Sizes of the run."""

    lanes: int
    """Live lanes, apart from the busy ones."""
    count: int
    """Targets of all busy lanes together."""
    chunk: int
    """Targets per envelope."""
    seed: int


def backlog(scene: Stage, load: ManyLanes, seed: int) -> list[TaskHandle]:
    """Submit twenty paused tasks of all tiers; return when all their targets are stored.

    A few targets are sent before they are paused.
    """
    part = targets(load.count // BUSY, seed)

    def submit_paused(number: int) -> TaskHandle:
        task = PushTask(
            app="bench", tier=TIERS[number % len(TIERS)], channel="null", message={"body": "busy"},
            expected_targets=max(len(part), 5_001), chunk=load.chunk,
        )  # fmt: skip
        return scene.client.submit(task, part)

    scene.client.set_capacity(1)
    with ThreadPoolExecutor(4) as pool:
        handles = list(pool.map(submit_paused, range(BUSY)))
        list(pool.map(TaskHandle.pause, handles))
    scene.client.set_capacity(0)
    time.sleep(2.0)
    return handles


def settled(handles: list[TaskHandle]) -> tuple[int, int]:
    """Return the number of targets with an outcome, and of all targets."""
    counts = [handle.progress().targets for handle in handles]
    return sum(count.total - count.pending for count in counts), sum(count.total for count in counts)


@dataclass(frozen=True)
class Drained:
    """Speed and cost of one drain."""

    targets_s: float
    """Rate of the workers, from 10 % to 90 % of the targets, without the start and the end."""
    cpu_us: float
    """CPU of both workers, per target."""


def drain(scene: Stage, handles: list[TaskHandle]) -> Drained:
    """Resume paused tasks and wait until all of their targets are sent."""
    _, total = settled(handles)
    workers = pids(scene)
    scene.say(f"{len(handles)} busy lanes with {total:,} targets")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(TaskHandle.resume, handles))
    wait_for("the first targets", lambda: settled(handles)[0] >= total * 0.1, 120, 0.02)
    first_s, first, before_s = time.monotonic(), settled(handles)[0], sum(map(cpu_s, workers))
    wait_for("nearly all targets", lambda: settled(handles)[0] >= total * 0.9, 300, 0.02)
    last_s, last, after_s = time.monotonic(), settled(handles)[0], sum(map(cpu_s, workers))
    wait_for("all targets", lambda: settled(handles)[0] == total, 300, 0.1)
    return Drained((last - first) / (last_s - first_s), (after_s - before_s) / (last - first) * 1e6)


def drain_again(scene: Stage, load: ManyLanes, phase: int) -> list[Drained]:
    """Drain one backlog after the other. `phase`: 0 to 2, so that no targets repeat."""
    return [drain(scene, backlog(scene, load, load.seed + phase * REPEATS + turn)) for turn in range(REPEATS)]


def close_lanes(scene: Stage) -> None:
    """End the idle tasks and wait until their lanes are gone."""
    scene.say("the idle lanes are cleared away")
    scene.client.set_many(TaskFilter(id_prefix=IDLE_PREFIX), Changes(cancelled=True))
    wait_for("the lanes to be gone", lambda: topics_left(scene.settings) < BUSY, CLEARED_S, 1.0)


def open_lanes(scene: Stage, count: int) -> None:
    with ThreadPoolExecutor(CONCURRENCY) as pool:
        for number, _ in enumerate(pool.map(partial(open_task, scene), range(count)), start=1):
            if number % 1_000 == 0:
                scene.say(f"{number:,} lanes")


def pids(scene: Stage) -> list[int]:
    return [worker.pid for worker in scene.serving()]


def idle_cost(scene: Stage) -> dict[str, float]:
    """Return the CPU of each idle worker and its maximum memory; the larger value of the two workers."""
    workers = pids(scene)
    scene.say("idle workers")
    with ThreadPoolExecutor(WORKERS) as pool:
        wait_for("the workers to come to rest", lambda: max(pool.map(lambda p: rate_of(p, 3.0), workers)) < 0.3, 120)
        used = list(pool.map(lambda pid: rate_of(pid, IDLE_WINDOW_S), workers))
    return {
        "idle_percent_of_core": max(used) * 100,
        "resident_mib": max(map(resident_mib, workers)),
        "attached_lanes": max(worker.lanes for worker in scene.client.workers()),
    }


def first_sends(scene: Stage, prefix: str) -> dict[str, float]:
    """Submit new high tasks of ten targets; return the times from the call of submit to the last target."""
    scene.say(f"{PROBES} new high tasks")
    return quantiles_ms(waits_of_probes(scene), f"{prefix}_")


def run(settings: Settings, load: ManyLanes, say: Callable[[str], None]) -> dict[str, float]:
    """Do one run: the twenty alone, among the many lanes, and alone again."""
    with stage(settings, say, namespaces=16) as scene:
        scene.start_workers(WORKERS)
        drain(scene, backlog(scene, load, load.seed + 3 * REPEATS))  # start-up happens here
        alone = drain_again(scene, load, 0)
        few = first_sends(scene, "first_send_alone")
        open_lanes(scene, load.lanes)
        cost = idle_cost(scene)
        waits = first_sends(scene, "first_send")
        among = drain_again(scene, load, 1)
        close_lanes(scene)
        alone += drain_again(scene, load, 2)
    alone_rate, among_rate = (median(each.targets_s for each in drained) for drained in (alone, among))
    return {
        "alone_targets_s": alone_rate,
        "among_targets_s": among_rate,
        "ratio": among_rate / alone_rate,
        "alone_worker_us": median(each.cpu_us for each in alone),
        "among_worker_us": median(each.cpu_us for each in among),
        **cost,
        **few,
        **waits,
    }
