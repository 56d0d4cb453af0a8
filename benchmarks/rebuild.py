"""Empties Redis behind a long history: how soon do grants begin again, from a snapshot or from the topics alone?"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass

from backends.redis.epochs import Epoch, Epochs
from backends.redis.view import RedisView, open_view
from benchmarks.stage import SEE_LOGS, Stage, stage, targets, wait_for
from dispatcher.model.errors import FairlaneError
from dispatcher.model.task import PushTask
from dispatcher.model.tier import TIERS
from fairlane.settings import Settings
from fairlane.worker.rebuild_by_hand import snapshot
from producers.handle import TaskHandle

WORKERS, TASKS, LATE_TASKS = 2, 20, 2
STANDING, STANDING_CAP = 1_000_000, 200
POLL_S = 0.02


@dataclass(frozen=True)
class History:
    """The history before Redis is emptied."""

    count: int
    """Targets that have an outcome by then."""
    chunk: int
    """Targets per envelope."""
    snapshot: bool
    """Whether a snapshot is stored before the last tenth of them."""
    seed: int


@dataclass
class Moments:
    """Times in seconds since Redis was emptied."""

    claims_ended: float = 0.0
    """When the longest claim made before has ended; 0: not known yet."""
    complete: float = 0.0
    granted: float = 0.0


def send(scene: Stage, load: History, audience: list[str], tasks: int) -> list[TaskHandle]:
    """Submit tasks of all tiers, with the same targets each; return once all are completed."""

    def submitted(number: int) -> TaskHandle:
        task = PushTask(
            app="bench", tier=TIERS[number % len(TIERS)], channel="null", message={"body": "history"},
            expected_targets=max(len(audience), 5_001), chunk=load.chunk,
        )  # fmt: skip
        return scene.client.submit(task, audience)

    with ThreadPoolExecutor(2) as pool:
        handles = list(pool.map(submitted, range(tasks)))
    for handle in handles:
        handle.wait(300)
    scene.say(f"{tasks * len(audience):,} targets have an outcome")
    return handles


def stand(scene: Stage) -> TaskHandle:
    """Submit a task that is granted something all the time."""
    task = PushTask(
        app="bench", tier="high", channel="null", message={"body": "standing"},
        expected_targets=STANDING, chunk=1, cap=STANDING_CAP,
    )  # fmt: skip
    handle = scene.client.submit(task, (f"standing-{number}" for number in range(STANDING // 20)))
    wait_for("the standing task", lambda: handle.progress().targets.sent > STANDING_CAP, 60)
    return handle


@contextmanager
def view_of(settings: Settings) -> Iterator[RedisView]:
    with closing(open_view(settings.redis)) as view:
        yield view


def empty_and_watch(settings: Settings) -> Moments:
    """Empty the view; return once something is granted again."""
    moments = Moments()
    with view_of(settings) as view:
        epochs = Epochs(view)
        view.wipe()
        began_s = time.monotonic()

        def granted() -> bool:
            note(moments, epochs.epoch(), time.monotonic() - began_s)
            return any(name.startswith("granted:") and count for name, count in view.stats().items())

        wait_for("grants", granted, 240, POLL_S)
        moments.granted = time.monotonic() - began_s
        note(moments, epochs.epoch(), moments.granted)
    return moments


def note(moments: Moments, epoch: Epoch | None, now_s: float) -> None:
    if epoch is not None and epoch.wait_ms:
        moments.claims_ended = now_s + epoch.wait_ms / 1000
    if epoch is not None and epoch.ready and not moments.complete:
        moments.complete = now_s


def check(handles: list[TaskHandle], size: int) -> None:
    """Raise FairlaneError if a task of the history has changed."""
    for handle in handles:
        view = handle.progress()
        if (view.state, view.targets.sent) != ("completed", size):
            raise FairlaneError(
                f"After the rebuild {handle.id} is {view.state} with {view.targets.sent:,} sent.", SEE_LOGS
            )


def run(settings: Settings, load: History, say: Callable[[str], None]) -> dict[str, float]:
    """Do one run: nine tenths of the history, the snapshot, the rest, a standing task; then Redis is emptied."""
    audience = targets(load.count // TASKS, load.seed)
    figures: dict[str, float] = {}
    with stage(settings, say) as scene:
        scene.crew.environment["FAIRLANE_WORKER_SNAPSHOT_EVERY_S"] = "0"
        scene.start_workers(WORKERS)
        handles = send(scene, load, audience, TASKS - LATE_TASKS)
        if load.snapshot:
            began_s = time.monotonic()
            snapshot(scene.settings)
            figures["snapshot_s"] = time.monotonic() - began_s
        handles += send(scene, load, audience, LATE_TASKS)
        standing = stand(scene)
        moments = empty_and_watch(scene.settings)
        check(handles, len(audience))
        standing.cancel()
    return {
        **figures,
        "claims_ended_s": moments.claims_ended,
        "granted_s": moments.granted,
        "granted_after_claims_s": moments.granted - moments.claims_ended,
        "complete_after_claims_s": moments.complete - moments.claims_ended,
    }
