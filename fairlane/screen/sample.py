"""Figures of the whole service at one moment, with rates from the moments before."""

from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

from dispatcher.clock import Clock
from dispatcher.tier import TIERS
from dispatcher.view import Globals, TaskView, WorkerBeat

WINDOW_S = 3.0
"""Rates and shares are over this much of the past."""


class Source(Protocol):
    """What a sampler reads; PushClient is one."""

    def globals(self) -> Globals: ...

    def workers(self) -> list[WorkerBeat]: ...

    def live_tasks(self) -> list[TaskView]: ...


@dataclass(frozen=True)
class TierFigures:
    """One tier. wanted and actual: parts of 1 of what is sent, None when nothing is; rate in targets/s;
    backlog in targets, of tasks that may be sent now; drain_s: seconds to empty it at the present rate."""

    tier: str
    weight: int
    wanted: float | None
    actual: float | None
    rate: float
    backlog: int
    drain_s: float | None


@dataclass(frozen=True)
class Sample:
    """The service at one moment; tasks are the live ones, oldest first."""

    at_s: float
    capacity: int
    tiers: list[TierFigures]
    tasks: list[TaskView]
    workers: list[WorkerBeat]
    sent: dict[str, int]
    """Targets sent by tier, of all workers since the sampler began to watch."""

    @property
    def rate(self) -> float:
        return sum(tier.rate for tier in self.tiers)


@dataclass
class Sampler:
    """Takes samples. Rates come from the workers' cumulative counts: they are right also while workers come and go."""

    source: Source
    clock: Clock
    _past: deque[tuple[float, dict[str, int]]] = field(default_factory=deque)
    _seen: dict[str, dict[str, int]] = field(default_factory=dict)

    def take(self) -> Sample:
        now_s, settings = self.clock.monotonic_s(), self.source.globals()
        workers = self.source.workers()
        tasks = sorted(self.source.live_tasks(), key=lambda task: (task.created_ms, task.id))
        rates = self._rates(now_s, workers)
        tiers = tier_figures(settings, tasks, rates)
        return Sample(now_s, settings.capacity, tiers, tasks, workers, self._past[-1][1])

    def _rates(self, now_s: float, workers: list[WorkerBeat]) -> dict[str, float]:
        for worker in workers:
            self._seen[worker.id] = {name: stats.sent for name, stats in worker.tiers.items()}
        totals = {tier: sum(counts.get(tier, 0) for counts in self._seen.values()) for tier in map(str, TIERS)}
        self._past.append((now_s, totals))
        while len(self._past) > 2 and self._past[1][0] <= now_s - WINDOW_S:
            self._past.popleft()
        then_s, before = self._past[0]
        if now_s <= then_s:
            return dict.fromkeys(totals, 0.0)
        return {tier: (totals[tier] - before[tier]) / (now_s - then_s) for tier in totals}


def wanted_shares(weights: dict[str, int], backlog: dict[str, int]) -> dict[str, float | None]:
    """By weight among the tiers that have a backlog; None for the others."""
    total = sum(weights[tier] for tier, targets in backlog.items() if targets)
    return {tier: weights[tier] / total if targets else None for tier, targets in backlog.items()}


def tier_figures(settings: Globals, tasks: list[TaskView], rates: dict[str, float]) -> list[TierFigures]:
    """Figures of every tier, highest first."""
    backlog = {
        tier: sum(task.targets.pending for task in tasks if task.tier == tier and task.state == "running")
        for tier in map(str, TIERS)
    }
    wanted, total = wanted_shares(settings.tier_weights, backlog), sum(rates.values())
    return [
        TierFigures(
            tier=tier,
            weight=settings.tier_weights[tier],
            wanted=wanted[tier],
            actual=rates[tier] / total if total else None,
            rate=rates[tier],
            backlog=backlog[tier],
            drain_s=backlog[tier] / rates[tier] if rates[tier] else None,
        )
        for tier in map(str, TIERS)
    ]
