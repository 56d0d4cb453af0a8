"""Live controls with a standing backlog: seconds until a change is visible in what eight workers send."""

import statistics
import time
from collections.abc import Callable
from math import floor
from typing import NamedTuple

from benchmarks.controls_seen import (
    CAPACITY,
    WATCHED_S,
    WINDOW_MS,
    Expected,
    Sent,
    is_as_expected,
    seconds_of_others,
    seconds_until,
)
from benchmarks.stage import Stage, stage, targets, wait_for
from dispatcher.model.task import PushTask
from dispatcher.model.tier import TIERS, Tier
from fairlane.settings import Settings
from producers.client import PushClient
from producers.control.controls import Cancelled
from producers.control.task_changes import Changes, TaskFilter
from producers.handle import TaskHandle

WORKERS = 8
TARGETS = 1_000_000
CHUNK = 5
"""Envelopes are leased whole: at 2,000/s a larger one would be visible in the shares of a second."""
CHANNEL = "log"
APP, OTHER_APP = "bench", "bench-other"
TASKS = {Tier.HIGH: 2, Tier.MEDIUM: 2, Tier.LOW: 4}
OF_OTHER_APP = "low-3"
"""This task does not change when the low tasks of the app are changed, so that the change is visible within the tier.
"""
BODY, EDITED = "x", "edited"
Change = Callable[[], object]


def fill(client: PushClient, seed: int) -> dict[str, TaskHandle]:
    """Submit a million targets, a third for each tier; return the tasks by name: a tier and a number."""
    tiers = {f"{tier}-{number}": tier for tier, count in TASKS.items() for number in range(count)}
    return {name: _submit(client, name, tier, seed + number) for number, (name, tier) in enumerate(tiers.items())}


def _submit(client: PushClient, name: str, tier: Tier, seed: int) -> TaskHandle:
    count = TARGETS // (TASKS[tier] * len(TIERS))
    app = OTHER_APP if name == OF_OTHER_APP else APP
    task = PushTask(
        app=app, tier=tier, channel=CHANNEL, message={"body": BODY}, expected_targets=count, chunk=CHUNK, weight=1.0
    )
    return client.submit(task, targets(count, seed))


class Trial:
    """Makes changes one after the other, and watches each for some seconds.

    `figures_so_far`: seconds by change, and other figures.
    """

    def __init__(self, scene: Stage, tasks: dict[str, TaskHandle]) -> None:
        self.now = Expected({handle.id: name.partition("-")[0] for name, handle in tasks.items()})
        self.figures_so_far: dict[str, float] = {}
        self._sent = Sent(scene.log)
        self._say = scene.say
        self._rates: list[float] = []
        self._returned_ms = 0.0

    def settle(self) -> None:
        """Wait until the shares are as expected."""

        def even() -> bool:
            self._sent.read()
            till_ms = time.time() * 1000
            return is_as_expected(self._sent.within(till_ms - 3 * WINDOW_MS, till_ms), self.now.parts())

        wait_for("shares as they should be, before anything is changed", even, 120, period_s=0.5)

    def change(self, name: str, change: Change, expect: Change) -> None:
        """Make a change, and record the time until it is visible. `expect`: applies it to the expected shares."""
        changed_ms = self._watched(change, expect)
        self._tell(name, seconds_until(self._sent, changed_ms, self.now.parts()))

    def edit(self, task: TaskHandle) -> None:
        """Edit the message.

        Record the time until the last delivery of the old message, and the targets sent with it meanwhile.
        """
        changed_ms = self._watched(lambda: task.edit_message({"body": EDITED}), lambda: None)
        since = self._sent.since(changed_ms, task.id)
        self._tell("edit", seconds_of_others(since, changed_ms, EDITED))
        self.figures_so_far["edited_sent_old"] = sum(delivery.targets for delivery in since if delivery.body != EDITED)

    def cancel(self, task: TaskHandle) -> None:
        """Cancel the task, and record what was sent after the call returned.

        The call reports a bound on that. The log has whole ms, so targets sent in the same ms count.
        """
        results = list[Cancelled]()
        self.change("cancel", lambda: results.append(task.cancel()), lambda: self.now.stopped.add(task.id))
        later = self._sent.since(floor(self._returned_ms), task.id)
        self.figures_so_far["cancelled_in_flight"] = results[0].in_flight
        self.figures_so_far["cancelled_sent"] = sum(delivery.targets for delivery in later)

    def figures(self) -> dict[str, float]:
        """Return the figures, with the worst time, and the rate while anything is expected to be sent."""
        worst_s = max(value for name, value in self.figures_so_far.items() if name.endswith("_s"))
        return self.figures_so_far | {"worst_s": worst_s, "sent_targets_s": statistics.mean(self._rates)}

    def _watched(self, change: Change, expect: Change) -> float:
        """Make a change and watch what is sent. Return the time at which the change was requested."""
        changed_ms = time.time() * 1000
        change()
        self._returned_ms = time.time() * 1000
        expect()
        time.sleep(WATCHED_S)
        self._sent.read()
        if any(self.now.parts().values()):
            sent = self._sent.within(changed_ms, changed_ms + WATCHED_S * 1000)
            self._rates.append(sum(sent.values()) / WATCHED_S)
        return changed_ms

    def _tell(self, name: str, seconds: float) -> None:
        self.figures_so_far[f"{name}_s"] = seconds
        self._say(f"{name}: {seconds:.2f} s")


class Step(NamedTuple):
    """A change, and the same change of what is expected."""

    name: str
    change: Change
    expect: Change


def steps(client: PushClient, tasks: dict[str, TaskHandle], now: Expected) -> list[Step]:
    """Return each change that is visible in the shares, with the same change of what is expected."""
    first, second, moved = (tasks[name] for name in ("high-0", "high-1", "low-1"))
    left = {tasks[name].id: 0.25 for name in ("low-0", "low-2")}
    low = TaskFilter(app=APP, tier=Tier.LOW)
    return [
        Step("weight", lambda: first.set_weight(3), lambda: now.weights.update({first.id: 3.0})),
        Step("tier", lambda: moved.set_tier("medium"), lambda: now.tiers.update({moved.id: "medium"})),
        Step("pause", second.pause, lambda: now.stopped.add(second.id)),
        Step("resume", second.resume, lambda: now.stopped.discard(second.id)),
        Step("cap", lambda: first.set_cap(200), lambda: now.caps.update({first.id: 200})),
        Step("uncap", lambda: first.set_cap(None), now.caps.clear),
        Step("tiers", lambda: client.set_tiers(high=1, medium=1, low=1), lambda: now.tier_weights.update(_EQUAL)),
        Step("many", lambda: client.set_many(low, Changes(weight=0.25)), lambda: now.weights.update(left)),
        Step("channel_pause", lambda: client.pause_channel(CHANNEL), lambda: now.stopped.update(now.tiers)),
        Step("channel_resume", lambda: client.resume_channel(CHANNEL), now.stopped.clear),
    ]


_EQUAL = {"high": 1.0, "medium": 1.0, "low": 1.0}


def measure(scene: Stage, tasks: dict[str, TaskHandle]) -> dict[str, float]:
    """Return seconds by change.

    The cancel comes last, since it ends a task. The task that is edited and cancelled is the one that most is sent of.
    """
    trial, first = Trial(scene, tasks), tasks["high-0"]
    trial.settle()
    for step in steps(scene.client, tasks, trial.now):
        trial.change(*step)
    trial.edit(first)
    trial.cancel(first)
    return trial.figures()


def run(settings: Settings, seed: int, say: Callable[[str], None]) -> dict[str, float]:
    """Do one run: eight workers at 2,000/s over a million queued targets."""
    with stage(settings, say) as scene:
        scene.client.set_capacity(CAPACITY)
        tasks = fill(scene.client, seed)
        scene.crew.join("workers", "--processes", str(WORKERS))
        wait_for("all workers", lambda: len(scene.client.workers()) == WORKERS, 120)
        return measure(scene, tasks)
