"""Determines when a change is visible, by comparing each task's expected share with what was sent."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path

from benchmarks.deliveries import Delivery, DeliveryLog

CAPACITY = 2_000
WINDOW_MS, STEP_MS = 1_000, 50
TOLERANCE = 0.025
"""Maximum deviation of a task's share, as a part of everything sent in a second; it must hold for one more second."""
MIN_USED = 0.5
"""Minimum part of the capacity that is used: shares of less say little, as just after a pause."""
WATCHED_S = 8.0
NEVER_S = 99.0


@dataclass
class Expected:
    """The expected share of each task."""

    tiers: dict[str, str]
    """Tier by task."""
    tier_weights: dict[str, float] = field(default_factory=lambda: {"high": 6.0, "medium": 3.0, "low": 1.0})
    weights: dict[str, float] = field(default_factory=dict)
    """Weight by task."""
    stopped: set[str] = field(default_factory=set)
    """Tasks that are paused or cancelled."""
    caps: dict[str, int] = field(default_factory=dict)
    """Targets/s by task."""

    def parts(self) -> dict[str, float]:
        """Return the share by task; what a cap leaves goes to the other tasks of the tier."""
        open_now = {task: tier for task, tier in self.tiers.items() if task not in self.stopped}
        total = sum(self.tier_weights[tier] for tier in set(open_now.values()))
        parts = dict.fromkeys(self.tiers, 0.0)
        for tier in set(open_now.values()):
            tasks = [task for task, of_tier in open_now.items() if of_tier == tier]
            parts |= self._within(tasks, self.tier_weights[tier] / total)
        return parts

    def _within(self, tasks: list[str], part: float) -> dict[str, float]:
        weight = sum(self.weights.get(task, 1.0) for task in tasks)
        parts = {task: part * self.weights.get(task, 1.0) / weight for task in tasks}
        capped = {task: self.caps[task] / CAPACITY for task in tasks if task in self.caps}
        held = {task: cap for task, cap in capped.items() if parts[task] > cap}
        if not held or len(held) == len(tasks):
            return parts
        others = [task for task in tasks if task not in held]
        return held | self._within(others, part - sum(held.values()))


class Sent:
    """Targets sent, read from the workers' `log` channel."""

    def __init__(self, log: Path) -> None:
        self._log = DeliveryLog(log)
        self._found: list[Delivery] = []

    def read(self) -> None:
        """Read what was written since the last call."""
        self._found += self._log.new()
        self._found.sort()

    def within(self, from_ms: float, till_ms: float) -> dict[str, int]:
        """Return the targets by task."""
        counts: dict[str, int] = {}
        for delivery in self._found[self._place(from_ms) : self._place(till_ms)]:
            counts[delivery.task] = counts.get(delivery.task, 0) + delivery.targets
        return counts

    def since(self, from_ms: float, task: str) -> list[Delivery]:
        """Return the deliveries of one task, as far as they have been read."""
        return [delivery for delivery in self._found[self._place(from_ms) :] if delivery.task == task]

    def _place(self, at_ms: float) -> int:
        return bisect_left(self._found, at_ms * 1000, key=attrgetter("at_us"))


def is_as_expected(counts: dict[str, int], parts: dict[str, float]) -> bool:
    """Return whether what was sent in one second (or more) is close enough to what is expected.

    Nothing may be sent if all tasks are stopped.
    """
    total = sum(counts.values())
    if not any(parts.values()):
        return total == 0
    enough = total >= MIN_USED * CAPACITY * WINDOW_MS / 1000
    return enough and all(abs(counts.get(task, 0) / total - part) <= TOLERANCE for task, part in parts.items())


def seconds_until(sent: Sent, changed_ms: float, parts: dict[str, float]) -> float:
    """Return the time from the change to the end of the first one-second window that is as expected.

    The next second must be as expected, too.
    """
    ends = [changed_ms + step for step in range(0, round(WATCHED_S * 1000), STEP_MS)]
    good = [is_as_expected(sent.within(end - WINDOW_MS, end), parts) for end in ends]
    lasting = WINDOW_MS // STEP_MS
    for index in range(len(ends) - lasting):
        if all(good[index : index + lasting]):
            return (ends[index] - changed_ms) / 1000
    return NEVER_S


def seconds_of_others(since: Sequence[Delivery], changed_ms: float, body: str) -> float:
    """Return the time from an edit to the last delivery with a message other than the new one.

    It is infinite if no delivery had the new message.
    """
    if all(delivery.body != body for delivery in since):
        return NEVER_S
    return max((delivery.at_us / 1e6 - changed_ms / 1000 for delivery in since if delivery.body != body), default=0.0)
