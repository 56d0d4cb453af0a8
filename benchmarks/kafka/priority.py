"""A late task of high behind four others: on Kafka with a topic for each tier, and with Fairlane."""

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.kafka import servers
from benchmarks.kafka.installing import ROOT, KafkaTools
from benchmarks.kafka.late_task import TestBed, figures
from benchmarks.stage import Stage, stage, targets, wait_for
from dispatcher.model.errors import FairlaneError
from dispatcher.model.task import PushTask
from dispatcher.model.tier import Tier
from fairlane.settings import Settings
from producers.control.task_changes import Changes, TaskFilter
from producers.handle import TaskHandle

TIMEOUT_S = 240
WORKERS = 2


def on_kafka(tools: KafkaTools, runs: int) -> list[dict[str, float]]:
    """Measure the three topics on one fresh server; each run has topics of its own."""
    found = []
    with (
        TemporaryDirectory(prefix="fairlane-kafka-") as folder,
        servers.kafka(Path(folder) / "kafka", tools, fsync=False) as address,
    ):
        for number in range(runs):
            command = [str(tools.python), "-m", "benchmarks.kafka.priority_kafka", json.dumps([address, number])]
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            done = subprocess.run(
                command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
            )
            if done.returncode:
                raise FairlaneError(f"The run on Kafka failed: {done.stderr[-800:]}")
            found.append(json.loads(done.stdout.splitlines()[-1]))
    return found


def on_fairlane(settings: Settings, runs: int, say: Callable[[str], None]) -> list[dict[str, float]]:
    """Measure Fairlane on the configured servers, in a tenant of its own."""
    found = []
    for number in range(runs):
        with stage(settings, say) as scene:
            found.append(_run(scene, TestBed(), seed=2026 + 1_000 * number))
    return found


def _submit(where: Stage, scene: TestBed, tier: Tier, count: int, seed: int) -> TaskHandle:
    task = PushTask(
        app="bench", tier=tier, channel="null", message={"body": "late"}, expected_targets=count, chunk=scene.chunk
    )
    return where.client.submit(task, targets=targets(count, seed))


def _run(where: Stage, scene: TestBed, seed: int) -> dict[str, float]:
    where.client.set_capacity(scene.capacity)
    earlier = [
        _submit(where, scene, Tier.HIGH, scene.earlier_targets, seed + number) for number in range(scene.earlier)
    ]
    for tier in (Tier.MEDIUM, Tier.LOW):
        _submit(where, scene, tier, scene.backlog(str(tier)), seed + 100)
    everything = TaskFilter(app="bench")
    where.client.set_many(everything, Changes(paused=True))
    where.start_workers(WORKERS)
    where.client.set_many(everything, Changes(paused=False))
    wait_for("the first target", lambda: any(task.progress().first_outcome_ms for task in earlier), 60, 0.01)
    time.sleep(scene.after_s)
    submitted_s = time.time()
    late = _submit(where, scene, Tier.HIGH, scene.late_targets, seed + 200)
    wait_for("the late task", lambda: late.progress().ended, 120, 0.02)
    left = sum(task.progress().targets.pending for task in earlier)
    where.client.set_many(everything, Changes(cancelled=True))
    return figures(scene, took_s=late.progress().finished_ms / 1000 - submitted_s, earlier_left=left)
