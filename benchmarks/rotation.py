"""A thousand backlogged lanes of one tier, and workers that attach to a part of them at a time.

Does each lane get its share over a minute?
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.stage import Stage, stage, targets, wait_for
from dispatcher.model.task import PushTask
from dispatcher.model.tier import Tier
from fairlane.settings import Settings
from lab.laws import jain

WORKERS = 2
SETTLE_S = 20.0
WINDOW_S = 60.0


@dataclass(frozen=True)
class Turns:
    """Parameters of the run."""

    lanes: int = 1_000
    """Lanes with a backlog, all of one tier."""
    max_lanes: int = 200
    """Maximum number of lanes to which one worker is attached."""
    capacity: int = 2_000
    """Targets/s."""
    chunk: int = 20
    """Targets per envelope."""
    seed: int = 2026


def submissions(load: Turns) -> Iterator[tuple[PushTask, list[str]]]:
    """Yield three times what the tier sends from the workers' start to the end of the window: no lane runs dry."""
    count = round(load.capacity * (SETTLE_S + WINDOW_S) * 3 / load.lanes)
    audience = targets(count, load.seed)
    for number in range(load.lanes):
        task = PushTask(
            app="bench", tier=Tier.HIGH, channel="null", message={"body": "turns"}, expected_targets=count,
            chunk=load.chunk, id=f"lane-{number}",
        )  # fmt: skip
        yield task, audience


def fill(scene: Stage, load: Turns) -> None:
    for number, submitted in enumerate(scene.client.submit_many(submissions(load)), start=1):
        if submitted.error is not None:
            raise submitted.error
        if number % 250 == 0:
            scene.say(f"{number:,} backlogged lanes")


def sent(scene: Stage) -> dict[str, int]:
    """Return the targets of each lane so far."""
    return {task.id: task.targets.sent for task in scene.client.live_tasks()}


def run(settings: Settings, load: Turns, say: Callable[[str], None]) -> dict[str, float]:
    """Do one run.

    Returns Jain's index of what the lanes were sent in a minute, and the minimum and maximum per lane.
    """
    with stage(settings, say, namespaces=16) as scene:
        scene.crew.environment["FAIRLANE_WORKER_MAX_LANES"] = str(load.max_lanes)
        scene.client.set_capacity(load.capacity)
        fill(scene, load)
        for number in range(WORKERS):
            scene.crew.join(f"worker-{number}")
        wait_for("the first targets", lambda: sum(sent(scene).values()) > 0, 60, 0.2)
        say(f"measuring for {WINDOW_S:.0f} s, in {SETTLE_S:.0f} s")
        time.sleep(SETTLE_S)
        before, began_s = sent(scene), time.monotonic()
        time.sleep(WINDOW_S)
        after, passed_s = sent(scene), time.monotonic() - began_s
        attached = max(worker.lanes for worker in scene.client.workers())
    gained = [after[lane] - count for lane, count in before.items()]
    return {
        "jain": jain(gained),
        "least_sent": min(gained),
        "most_sent": max(gained),
        "capacity_used": sum(gained) / passed_s / load.capacity,
        "attached_lanes": attached,
    }
