"""Ten thousand small tasks from one process: time until all are delivered, and what is left two minutes later."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

from backends.pulsar.admin import PulsarAdmin
from backends.redis.view import open_view
from benchmarks.stage import SEE_LOGS, Stage, stage, wait_for
from dispatcher.model.errors import FairlaneError
from dispatcher.model.task import PushTask
from dispatcher.model.tier import TIERS
from dispatcher.wire.topics import task_of_lane
from fairlane.settings import Settings

AFTER_S = 120.0
"""Maximum time after the last task's end until everything is cleared away."""
LOOK_EVERY_S = 5.0
WARM_UP_TASKS = 12
LIMIT_S = 420.0
"""Maximum wait for the last task."""


@dataclass(frozen=True)
class ManyTasks:
    """A number of tasks with `targets` targets each."""

    tasks: int = 10_000
    targets: int = 100


def submissions(load: ManyTasks) -> Iterator[tuple[PushTask, list[str]]]:
    """Yield the tasks, with tiers in turn; low tasks get their own lane by setting a weight."""
    for number in range(load.tasks):
        tier = TIERS[number % len(TIERS)]
        task = PushTask(
            app="bench", tier=tier, channel="null", message={"body": "many"}, expected_targets=load.targets,
            weight=2.0 if tier == "low" else 1.0,
        )  # fmt: skip
        yield task, [f"{number:032x}{target:032x}" for target in range(load.targets)]


def submit_all(scene: Stage, load: ManyTasks, began_s: float) -> None:
    for number, submitted in enumerate(scene.client.submit_many(submissions(load)), start=1):
        if submitted.error is not None:
            raise submitted.error
        if time.monotonic() - began_s > LIMIT_S:
            raise FairlaneError(f"Only {number:,} tasks were submitted in {LIMIT_S:.0f} s.", "See the broker's load.")
        if number % 1_000 == 0:
            scene.say(f"submitted {number:,} tasks")


def live_tasks(scene: Stage) -> int:
    with closing(open_view(scene.settings.redis)) as view:
        return int(view.command("ZCARD", view.keys.tasks))


def topics_left(settings: Settings) -> int:
    """Return the number of task lanes that still exist."""
    with closing(PulsarAdmin(settings.pulsar)) as admin:
        namespaces = admin.namespaces(settings.pulsar.tenant)
        return sum(
            task_of_lane(topic) is not None for namespace in namespaces for topic in admin.list_topics(namespace)
        )


def keys_left(settings: Settings) -> Counter[str]:
    """Return the number of keys by kind (the part behind the prefix) and expiry: "task expires", "feed stays"."""
    with closing(open_view(settings.redis)) as view:
        names = list(view.client.scan_iter(match=f"{view.keys.prefix}:*", count=1_000))
        pipeline = view.client.pipeline(transaction=False)
        for name in names:
            pipeline.pttl(name)
        lives = pipeline.execute() if names else []
    kinds = (name.decode().removeprefix(view.keys.prefix + ":").partition(":")[0] for name in names)
    return Counter(f"{kind} {'expires' if life >= 0 else 'stays'}" for kind, life in zip(kinds, lives, strict=True))


def stays_of_tasks(keys: Counter[str]) -> int:
    """Return the number of keys that belong to a task, or to its lane, and never expire."""
    return sum(keys[f"{kind} stays"] for kind in ("task", "final", "touched", "open", "claim", "lane", "why"))


@dataclass(frozen=True)
class Left:
    """The lanes and keys that exist."""

    topics: int
    keys: Counter[str]
    """Number by kind and expiry, see `keys_left`."""

    @property
    def stays(self) -> Counter[str]:
        return Counter({kind: count for kind, count in self.keys.items() if kind.endswith("stays")})


def left(scene: Stage) -> Left:
    return Left(topics_left(scene.settings), keys_left(scene.settings))


def deliver_all(scene: Stage, began_s: float) -> float:
    """Wait until no task is live; return the seconds since `began_s`."""
    shown_s = time.monotonic()
    while live := live_tasks(scene):
        now_s = time.monotonic()
        if now_s - began_s > LIMIT_S:
            raise FairlaneError(f"{live:,} tasks have not ended after {LIMIT_S:.0f} s.", SEE_LOGS)
        if now_s - shown_s > LOOK_EVERY_S:
            shown_s = now_s
            scene.say(f"{live:,} tasks have not ended")
        time.sleep(0.2)
    return time.monotonic() - began_s


def clear_away(scene: Stage, before: Left) -> tuple[Left, float]:
    """Return the lanes and keys left, and how long the clearing took.

    Waits until everything is cleared away or the time for it is over.
    """
    began_s = time.monotonic()
    while True:
        remaining, passed_s = left(scene), time.monotonic() - began_s
        if passed_s >= AFTER_S or not (remaining.topics or remaining.stays - before.stays):
            return remaining, passed_s
        scene.say(f"{remaining.topics:,} topics left, {(remaining.stays - before.stays).total():,} keys without expiry")
        time.sleep(LOOK_EVERY_S)


def warm_up(scene: Stage, load: ManyTasks) -> Left:
    """Return what exists once some tasks have ended: by then the service's own keys exist."""
    began_s = time.monotonic()
    submit_all(scene, ManyTasks(WARM_UP_TASKS, load.targets), began_s)
    deliver_all(scene, began_s)
    wait_for("the first lanes to be deleted", lambda: not topics_left(scene.settings), 60, 0.5)
    return left(scene)


def sent_by_workers(scene: Stage) -> int:
    return sum(tier.sent for worker in scene.client.workers() for tier in worker.tiers.values())


def run(settings: Settings, load: ManyTasks, say: Callable[[str], None]) -> dict[str, float]:
    """Do one run with two workers."""
    with stage(settings, say, namespaces=16) as scene:
        scene.start_workers(2)
        before = warm_up(scene, load)
        began_s = time.monotonic()
        submit_all(scene, load, began_s)
        submitted_s = time.monotonic() - began_s
        delivered_s = deliver_all(scene, began_s)
        targets = (load.tasks + WARM_UP_TASKS) * load.targets
        wait_for("all targets in the workers' counts", lambda: sent_by_workers(scene) >= targets, 10)
        remaining, cleared_s = clear_away(scene, before)
        say("keys: " + ", ".join(f"{kind}: {count:,}" for kind, count in sorted(remaining.keys.items())))
    return {
        "submitted_s": submitted_s,
        "delivered_s": delivered_s,
        "cleared_s": cleared_s,
        "topics_left": remaining.topics,
        "keys_of_tasks_left_without_ttl": stays_of_tasks(remaining.keys),
        "keys_more_than_before_without_ttl": (remaining.stays - before.stays).total(),
        "keys_left_that_expire": remaining.keys.total() - remaining.stays.total(),
    }
