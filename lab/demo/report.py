"""The closing report of the demo, and whether everything went as required."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from math import inf

from rich.console import Group, RenderableType
from rich.text import Text

from dispatcher.analysis.histogram import quantile
from dispatcher.model.tier import TIERS
from dispatcher.model.values import duration, percent
from dispatcher.model.view import WAIT_BUCKETS_MS, TaskView, WorkerBeat
from dispatcher.wire.outcome import OUTCOME_NAMES
from fairlane.screen.console import GREEN, RED
from fairlane.screen.render import STATE, TIER
from fairlane.screen.sample import Sample
from fairlane.screen.table import table_of

MEASURED_S, FAST_ENOUGH = 8.0, 0.8
"""How long a rate is measured, and the part of the capacity from which on it is near enough."""


@dataclass
class ShareMeter:
    """Counts the targets sent per tier while all tiers had a backlog; shares must match the weights only then."""

    sent: dict[str, int] = field(default_factory=lambda: dict.fromkeys(map(str, TIERS), 0))
    seconds: float = 0.0
    _last: Sample | None = None

    def add(self, sample: Sample) -> None:
        last, self._last = self._last, sample
        if last is None or not (_all_backlogged(last) and _all_backlogged(sample) and any(_sent(last).values())):
            return
        self.seconds += sample.at_s - last.at_s
        for (_, tier), targets in (_sent(sample) - _sent(last)).items():
            self.sent[tier] += targets

    def slowness(self, capacity: int) -> str:
        """Return a note if the machine sends less than the capacity, so that workers and not weights set the shares."""
        rate = sum(self.sent.values()) / self.seconds if self.seconds >= MEASURED_S else capacity
        if rate >= FAST_ENOUGH * capacity:
            return ""
        lower = max(10, round(rate / 2, -1))
        return (
            f"this machine is too slow for {capacity:,} targets/s, and its shares are blurred: "
            f"try `fairlane demo --capacity {lower:.0f}`"
        )

    def share(self, tier: str) -> float | None:
        total = sum(self.sent.values())
        return self.sent[tier] / total if total else None


def _sent(sample: Sample) -> Counter[tuple[str, str]]:
    """Return the targets sent, by worker and tier."""
    return Counter({(worker.id, tier): stats.sent for worker in sample.workers for tier, stats in worker.tiers.items()})


def _all_backlogged(sample: Sample) -> bool:
    return all(tier.backlog > 0 for tier in sample.tiers)


@dataclass(frozen=True)
class DemoResult:
    """Everything the closing report needs."""

    tasks: list[TaskView]
    accepted: dict[str, int]
    """Number of accepted targets, by task id."""
    workers: list[WorkerBeat]
    meter: ShareMeter
    seconds: float
    fcm: Mapping[str, int] | None = None
    """Counts of the fake FCM, if there was one: messages `accepted`, and `messages_repeated`."""

    def failures(self) -> list[str]:
        """Return why the demo failed; empty if it succeeded."""
        tasks = {task.id: task for task in self.tasks}
        lines = [f"{task} is missing" for task in self.accepted if task not in tasks]
        for task in self.tasks:
            counts = task.targets
            outcomes = counts.sent + counts.invalid + counts.failed + counts.expired + counts.cancelled
            if not task.ended or counts.pending:
                lines.append(f"{task.id} is {task.state} with {counts.pending:,} targets pending")
            elif outcomes != self.accepted.get(task.id):
                lines.append(f"{task.id} has {outcomes:,} outcomes for {self.accepted.get(task.id, 0):,} targets")
        if self.fcm is not None:
            accepted, repeated = self.fcm["accepted"], self.fcm["messages_repeated"]
            sent = sum(task.targets.sent for task in self.tasks if task.channel == "fcm")
            if (accepted, repeated) != (sent, 0):
                lines.append(f"FCM accepted {accepted:,} messages, {repeated:,} repeated, for {sent:,} targets")
        return lines


def tiers_report(closing: DemoResult) -> RenderableType:
    """Return targets, share and waits of each tier."""
    rows = []
    for tier in map(str, TIERS):
        counts = merged(closing.workers, tier)
        waits = {name: quantile_ms(counts, part) for name, part in (("wait_p50_ms", 0.5), ("wait_p99_ms", 0.99))}
        targets = sum(task.targets.total for task in closing.tasks if task.tier == tier)
        rows.append({"tier": tier, "targets": targets, "share": percent(closing.meter.share(tier)), **waits})
    return table_of(rows, (TIER, *list(rows[0])[1:]))


def merged(workers: Iterable[WorkerBeat], tier: str) -> list[int]:
    """Return the number of envelopes by wait, one count per bucket, over all workers."""
    total = [0] * (len(WAIT_BUCKETS_MS) + 1)
    for worker in workers:
        stats = worker.tiers.get(tier)
        for index, count in enumerate(stats.wait_counts if stats else []):
            total[index] += count
    return total


def quantile_ms(counts: list[int], part: float) -> float | None:
    """Return the wait below which `part` (0 to 1) of the envelopes stay; None if there are none."""
    return quantile(list(zip((*WAIT_BUCKETS_MS, inf), accumulate(counts), strict=True)), part)


def tasks_report(closing: DemoResult) -> RenderableType:
    """Return the targets of each task by outcome."""
    outcomes = (*OUTCOME_NAMES, "pending")
    rows = [
        {"task": task.id, "tier": task.tier, "state": task.state, "targets": task.targets.total}
        | {name: getattr(task.targets, name) for name in outcomes}
        for task in closing.tasks
    ]
    return table_of(rows, ("task", TIER, STATE, "targets", *outcomes), ("cancelled", "expired", "tier"))


def closing_report(closing: DemoResult) -> RenderableType:
    """Return the tables of tiers and tasks, and the conclusion."""
    failures = closing.failures()
    total = sum(closing.accepted.values())
    tiers = f"Tiers (all had a backlog for {closing.meter.seconds:.0f} s)"
    parts: list[RenderableType] = [Text(), Text(tiers, style="italic"), tiers_report(closing)]
    parts += [Text(), Text("Tasks", style="italic"), tasks_report(closing), Text()]
    if failures:
        parts += [Text(f"✗ {line}", style=RED) for line in failures]
    else:
        parts.append(Text(f"✓ {total:,} targets, each with one outcome, in {duration(closing.seconds)}", style=GREEN))
        if closing.fcm is not None:
            text = f"✓ {closing.fcm['accepted']:,} of them over TLS and HTTP/2 to a fake FCM, which accepted each once"
            parts.append(Text(text, style=GREEN))
    return Group(*parts)
