"""One task of 100,000 and nine of 1,000 in the same tier, one target an envelope: when do the small ones end?"""

from collections.abc import Callable

from benchmarks.stage import Stage, stage, targets, wait_for
from dispatcher.model.task import PushTask
from dispatcher.model.tier import Tier
from fairlane.settings import Settings
from producers.handle import TaskHandle

CAPACITY = 2_000
LARGE, SMALL, SMALL_TASKS = 100_000, 1_000, 9


def submit(scene: Stage, count: int, seed: int) -> TaskHandle:
    task = PushTask(
        app="bench", tier=Tier.HIGH, channel="null", message={"body": "fair"}, expected_targets=count, chunk=1
    )
    return scene.client.submit(task, targets=targets(count, seed))


def run(settings: Settings, seed: int, say: Callable[[str], None]) -> dict[str, float]:
    """Do one run: each small task's time over its fair time (all ten share equally until the small ones end)."""
    with stage(settings, say) as scene:
        scene.client.set_capacity(CAPACITY)
        large = submit(scene, LARGE, seed)
        small = [submit(scene, SMALL, seed + 1 + number) for number in range(SMALL_TASKS)]
        for number in range(2):
            scene.crew.join(f"worker-{number}")
        wait_for("the small tasks", lambda: all(task.progress().ended for task in small), 120)
        views = [task.progress() for task in (large, *small)]
        large.cancel()
    began_ms = min(view.first_outcome_ms for view in views)
    fair_s = SMALL * (SMALL_TASKS + 1) / CAPACITY
    times = sorted((view.finished_ms - began_ms) / 1000 / fair_s for view in views[1:])
    return {"worst_to_fair": times[-1], "median_to_fair": times[len(times) // 2]}
