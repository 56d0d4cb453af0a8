"""A new high task among a large backlog: from the call of submit to the delivery of its last target."""

import json
import statistics
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from dispatcher.task import PushTask
from dispatcher.tier import Tier
from fairlane.bench.stage import Stage, stage, targets, wait_for
from fairlane.settings import Settings

CAPACITY = 2_000
BACKLOG = {Tier.LOW: 200_000, Tier.MEDIUM: 50_000}
PROBES, PROBE_TARGETS, PROBE_EVERY_S = 40, 10, 0.25


def fill(scene: Stage, seed: int) -> None:
    for tier, count in BACKLOG.items():
        task = PushTask(app="bench", tier=tier, channel="null", message={"body": "backlog"}, expected_targets=count)
        scene.client.submit(task, targets=targets(count, seed))


def delivered(path: Path) -> dict[str, float]:
    """Wall time at which each task's last target was delivered, for tasks that are through; from the log channel."""
    left: dict[str, int] = {}
    found: dict[str, float] = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        entry = json.loads(line)
        task = entry["task"]
        left[task] = left.get(task, PROBE_TARGETS) - len(entry["targets"])
        found[task] = max(found.get(task, 0.0), datetime.fromisoformat(entry["ts"]).timestamp())
    return {task: at for task, at in found.items() if left[task] <= 0}


def probe(scene: Stage, number: int) -> tuple[str, float]:
    """Submits one small high task: its id and the wall time of the call."""
    task = PushTask(
        app="bench", tier=Tier.HIGH, channel="log", message={"body": "probe"}, expected_targets=PROBE_TARGETS
    )
    called = time.time()
    handle = scene.client.submit(task, targets=targets(PROBE_TARGETS, 10_000 + number))
    return handle.id, called


def run(settings: Settings, seed: int, say: Callable[[str], None]) -> dict[str, float]:
    """One run of 40 probes: p50 and p95 in milliseconds."""
    with stage(settings, say) as scene:
        scene.client.set_capacity(CAPACITY)
        fill(scene, seed)
        for number in range(2):
            scene.crew.join(f"worker-{number}")
        wait_for("workers to send", lambda: sum(w.rate for w in scene.client.workers()) > CAPACITY * 0.8, 60)
        waits = waits_of_probes(scene)
    return {**quantiles_ms(waits), "max_ms": waits[-1]}


def waits_of_probes(scene: Stage) -> list[float]:
    """40 of them, one after the other: milliseconds from the call of submit to the last delivery, least first."""
    called = {}
    for number in range(PROBES):
        task, at = probe(scene, number)
        called[task] = at
        time.sleep(PROBE_EVERY_S)
    wait_for("the probes", lambda: called.keys() <= delivered(scene.log).keys(), 30)
    ended = delivered(scene.log)
    return sorted((ended[task] - at) * 1000 for task, at in called.items())


def quantiles_ms(waits: Sequence[float], prefix: str = "") -> dict[str, float]:
    """waits: least first."""
    return {f"{prefix}p50_ms": statistics.median(waits), f"{prefix}p95_ms": waits[int(len(waits) * 0.95) - 1]}
