"""Live controls with a standing backlog: seconds until a change shows in what eight workers send."""

import time
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path

from dispatcher.task import PushTask
from dispatcher.tier import TIERS, Tier
from fairlane.bench.deliveries import Delivery, DeliveryLog
from fairlane.bench.stage import Stage, stage, targets, wait_for
from fairlane.settings import Settings
from producers.client import PushClient
from producers.handle import TaskHandle

CAPACITY = 2_000
WORKERS = 8
TARGETS = 1_000_000
CHUNK = 5
"""Envelopes are leased whole: at 2,000/s a larger one would be seen in the shares of a second."""
WINDOW_MS, STEP_MS = 1_000, 50
TOLERANCE = 0.025
"""Of all that is sent in a second: so near must each task's part be to what it should be, for another second on end."""
WATCHED_S = 8.0
NEVER_S = 99.0


@dataclass
class Expected:
    """What each task's part of the sending should be. weights: of tasks; caps: in targets/s."""

    tiers: dict[str, str]
    tier_weights: dict[str, float] = field(default_factory=lambda: {"high": 6.0, "medium": 3.0, "low": 1.0})
    weights: dict[str, float] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)
    caps: dict[str, int] = field(default_factory=dict)

    def parts(self) -> dict[str, float]:
        """By task; what a cap leaves goes to the others of the tier."""
        open_now = {task: tier for task, tier in self.tiers.items() if task not in self.paused}
        whole = sum(self.tier_weights[tier] for tier in set(open_now.values()))
        parts = dict.fromkeys(self.tiers, 0.0)
        for tier in set(open_now.values()):
            tasks = [task for task, of_tier in open_now.items() if of_tier == tier]
            parts |= self._within(tasks, self.tier_weights[tier] / whole)
        return parts

    def _within(self, tasks: list[str], part: float) -> dict[str, float]:
        weight = sum(self.weights.get(task, 1.0) for task in tasks)
        parts = {task: part * self.weights.get(task, 1.0) / weight for task in tasks}
        capped = {task: self.caps[task] / CAPACITY for task in tasks if task in self.caps}
        held = {task: most for task, most in capped.items() if parts[task] > most}
        if not held or len(held) == len(tasks):
            return parts
        others = [task for task in tasks if task not in held]
        return held | self._within(others, part - sum(held.values()))


class Sent:
    """What was sent, by task, from the workers' `log` channel."""

    def __init__(self, log: Path) -> None:
        self._log = DeliveryLog(log)
        self._found: list[Delivery] = []

    def read(self) -> None:
        """Takes what was written since."""
        self._found += self._log.new()
        self._found.sort()

    def within(self, from_ms: float, till_ms: float) -> dict[str, int]:
        """Targets by task."""
        counts: dict[str, int] = {}
        first, last = (bisect_left(self._found, ms * 1000, key=attrgetter("at_us")) for ms in (from_ms, till_ms))
        for delivery in self._found[first:last]:
            counts[delivery.task] = counts.get(delivery.task, 0) + delivery.targets
        return counts


def is_as_expected(counts: dict[str, int], parts: dict[str, float]) -> bool:
    """Whether what was sent in one window is near enough to what should be."""
    total = sum(counts.values())
    return total > 0 and all(abs(counts.get(task, 0) / total - part) <= TOLERANCE for task, part in parts.items())


def seconds_until(sent: Sent, changed_ms: float, parts: dict[str, float]) -> float:
    """From the change to the end of the first window of one second that is as expected, and stays so for a second."""
    ends = [changed_ms + step for step in range(0, round(WATCHED_S * 1000), STEP_MS)]
    good = [is_as_expected(sent.within(end - WINDOW_MS, end), parts) for end in ends]
    lasting = WINDOW_MS // STEP_MS
    for place in range(len(ends) - lasting):
        if all(good[place : place + lasting]):
            return (ends[place] - changed_ms) / 1000
    return NEVER_S


def fill(scene: Stage, seed: int) -> dict[str, TaskHandle]:
    """Two tasks a tier, a million targets in all."""
    count = TARGETS // (2 * len(TIERS))
    handles = [_submit(scene.client, tier, count, seed + number) for tier in TIERS for number in range(2)]
    return dict(zip(("high-0", "high-1", "medium-0", "medium-1", "low-0", "low-1"), handles, strict=True))


def _submit(client: PushClient, tier: Tier, count: int, seed: int) -> TaskHandle:
    task = PushTask(
        app="bench", tier=tier, channel="log", message={"body": "x"}, expected_targets=count, chunk=CHUNK, weight=1.0
    )
    return client.submit(task, targets(count, seed))


Change = Callable[[], None]


def steps(client: PushClient, tasks: dict[str, TaskHandle], now: Expected) -> list[tuple[str, Change, Change]]:
    """Each change, and the same of what is expected."""
    first, second, moved = (tasks[name] for name in ("high-0", "high-1", "low-1"))
    return [
        ("weight", lambda: first.set_weight(3), lambda: now.weights.update({first.id: 3.0})),
        ("tier", lambda: moved.set_tier("medium"), lambda: now.tiers.update({moved.id: "medium"})),
        ("pause", second.pause, lambda: now.paused.add(second.id)),
        ("resume", second.resume, lambda: now.paused.discard(second.id)),
        ("cap", lambda: first.set_cap(200), lambda: now.caps.update({first.id: 200})),
        ("uncap", lambda: first.set_cap(None), now.caps.clear),
        ("tiers", lambda: client.set_tiers(high=1, medium=1, low=1), lambda: now.tier_weights.update(_EQUAL)),
    ]


_EQUAL = {"high": 1.0, "medium": 1.0, "low": 1.0}


def measure(scene: Stage, tasks: dict[str, TaskHandle]) -> dict[str, float]:
    """Seconds by change, one after the other."""
    sent, found = Sent(scene.log), dict[str, float]()
    now = Expected({handle.id: name.partition("-")[0] for name, handle in tasks.items()})
    _settle(sent, now)
    began_s, before_ms = time.monotonic(), time.time() * 1000
    for name, change, expect in steps(scene.client, tasks, now):
        changed_ms = time.time() * 1000
        change()
        expect()
        time.sleep(WATCHED_S)
        sent.read()
        found[f"{name}_s"] = seconds_until(sent, changed_ms, now.parts())
        scene.say(f"{name}: {found[f'{name}_s']:.2f} s")
    found["worst_s"] = max(found.values())
    total = sum(sent.within(before_ms, time.time() * 1000).values())
    return found | {"sent_targets_s": total / (time.monotonic() - began_s)}


def _settle(sent: Sent, now: Expected) -> None:
    def even() -> bool:
        sent.read()
        till_ms = time.time() * 1000
        return is_as_expected(sent.within(till_ms - 3 * WINDOW_MS, till_ms), now.parts())

    wait_for("shares as they should be, before anything is changed", even, 120, period_s=0.5)


def run(settings: Settings, seed: int, say: Callable[[str], None]) -> dict[str, float]:
    """One run: eight workers at 2,000/s over a million queued targets."""
    with stage(settings, say) as scene:
        scene.client.set_capacity(CAPACITY)
        tasks = fill(scene, seed)
        scene.crew.join("workers", "--processes", str(WORKERS))
        wait_for("all workers", lambda: len(scene.client.workers()) == WORKERS, 120)
        return measure(scene, tasks)
