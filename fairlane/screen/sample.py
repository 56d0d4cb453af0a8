"""Figures of the whole service at one moment, with rates from the moments before."""

from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

from dispatcher.analysis.served import Served
from dispatcher.analysis.situation import job_of_view, sendable
from dispatcher.clock import Clock
from dispatcher.model.tier import TIERS
from dispatcher.model.view import Globals, TaskView, WorkerBeat

WINDOW_S = 3.0
"""Rates and shares are over this much of the past."""


class SampleSource(Protocol):
    """What a sampler reads; PushClient is one."""

    def globals(self) -> Globals: ...

    def workers(self) -> list[WorkerBeat]: ...

    def live_tasks(self) -> list[TaskView]: ...


@dataclass(frozen=True)
class TierFigures:
    """One tier. wanted and actual: parts of 1 of what is sent, None when nothing is; rate in targets/s;
    backlog in targets, of tasks that may be sent now; drain_s: seconds to empty it at the present rate, 0 without one,
    None if none of it is being sent."""

    tier: str
    weight: int
    wanted: float | None
    actual: float | None
    rate: float
    backlog: int
    drain_s: float | None


@dataclass(frozen=True)
class Sample:
    """The service at one moment. tasks: the live ones, oldest first; sending: those of them that may be sent now."""

    at_s: float
    settings: Globals
    tiers: list[TierFigures]
    tasks: list[TaskView]
    sending: list[TaskView]
    workers: list[WorkerBeat]
    sent: dict[str, int]
    """Targets sent by tier, of all workers since the sampler began to watch."""

    @property
    def capacity(self) -> int:
        return self.settings.capacity

    @property
    def rate(self) -> float:
        return sum(tier.rate for tier in self.tiers)


@dataclass
class _Track:
    """A worker's latest heartbeats: when it made each (its wall time) and what it had sent by then."""

    beats: deque[tuple[int, dict[str, int]]] = field(default_factory=deque)
    changed_s: float = 0.0

    def add(self, now_s: float, worker: WorkerBeat) -> None:
        if self.beats and self.beats[-1][0] == worker.seen_ms:
            return
        self.changed_s = now_s
        self.beats.append((worker.seen_ms, {name: stats.sent for name, stats in worker.tiers.items()}))
        while len(self.beats) > 2 and self.beats[1][0] <= worker.seen_ms - WINDOW_S * 1000:
            self.beats.popleft()

    def sent(self, tier: str) -> int:
        return self.beats[-1][1].get(tier, 0)

    def rate(self, tier: str, now_s: float) -> float:
        """Targets/s between its own heartbeats; 0 once they have stopped."""
        (first_ms, first), (last_ms, last) = self.beats[0], self.beats[-1]
        if last_ms <= first_ms or now_s - self.changed_s > WINDOW_S:
            return 0.0
        return (last.get(tier, 0) - first.get(tier, 0)) * 1000 / (last_ms - first_ms)


@dataclass
class Sampler:
    """Takes samples. Rates come from the workers' cumulative counts and the times of their heartbeats: they are right
    also while workers come and go, and however a look falls between two heartbeats."""

    source: SampleSource
    clock: Clock
    _tracks: dict[str, _Track] = field(default_factory=dict)

    def take(self) -> Sample:
        now_s, settings = self.clock.monotonic_s(), self.source.globals()
        workers = self.source.workers()
        for worker in workers:
            self._tracks.setdefault(worker.id, _Track()).add(now_s, worker)
        tracks, names = self._tracks.values(), [str(tier) for tier in TIERS]
        rates = {tier: sum(track.rate(tier, now_s) for track in tracks) for tier in names}
        sent = {tier: sum(track.sent(tier) for track in tracks) for tier in names}
        tasks = sorted(self.source.live_tasks(), key=lambda task: (task.created_ms, task.id))
        now_ms, served = self.clock.wall_ms(), Served.by(workers)
        served_tasks = [task for task in tasks if not served.lacks(task.channel)]
        sending = [task for task in served_tasks if sendable(job_of_view(task, now_ms), settings)]
        return Sample(now_s, settings, tier_figures(settings, sending, rates), tasks, sending, workers, sent)


def wanted_shares(weights: dict[str, int], backlog: dict[str, int]) -> dict[str, float | None]:
    """By weight among the tiers that have a backlog; None for the others."""
    total = sum(weights[tier] for tier, targets in backlog.items() if targets)
    return {tier: weights[tier] / total if targets else None for tier, targets in backlog.items()}


def tier_figures(settings: Globals, sending: list[TaskView], rates: dict[str, float]) -> list[TierFigures]:
    """Figures of every tier, highest first."""
    backlog = {tier: sum(task.targets.pending for task in sending if task.tier == tier) for tier in map(str, TIERS)}
    wanted, total = wanted_shares(settings.tier_milli, backlog), sum(rates.values())
    return [
        TierFigures(
            tier=tier,
            weight=settings.tier_milli[tier],
            wanted=wanted[tier],
            actual=rates[tier] / total if total else None,
            rate=rates[tier],
            backlog=backlog[tier],
            drain_s=0.0 if not backlog[tier] else backlog[tier] / rates[tier] if rates[tier] else None,
        )
        for tier in map(str, TIERS)
    ]
