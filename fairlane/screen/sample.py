"""Figures of the whole service at one moment, with rates from the moments before."""

from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

from dispatcher.analysis.served import Served
from dispatcher.analysis.situation import job_of_view, sendable
from dispatcher.clock import Clock
from dispatcher.model.tier import TIERS
from dispatcher.model.view import Globals, TaskView, WorkerBeat
from fairlane.figures.signals import drain_s, wanted_shares

WINDOW_S = 3.0
"""Window of rates and shares."""


class SampleSource(Protocol):
    """The data source of a sampler; PushClient is one."""

    def globals(self) -> Globals: ...

    def workers(self) -> list[WorkerBeat]: ...

    def live_tasks(self) -> list[TaskView]: ...


@dataclass(frozen=True, kw_only=True)
class TierFigures:
    """Figures of one tier."""

    tier: str
    weight: int
    wanted: float | None
    """Share by weight, from 0 to 1; None if nothing is sent."""
    actual: float | None
    """Share of what is sent, from 0 to 1; None if nothing is sent."""
    rate: float
    """Targets/s."""
    backlog: int
    """Targets of tasks that may be sent now."""
    drain_s: float | None
    """Seconds to empty the backlog at the present rate. 0: there is none. None: none of it is being sent."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The service at one moment."""

    at_s: float
    settings: Globals
    tiers: list[TierFigures]
    tasks: list[TaskView]
    """Live tasks, oldest first."""
    sending: list[TaskView]
    """The live tasks that may be sent now."""
    workers: list[WorkerBeat]
    sent: dict[str, int]
    """Targets sent by tier, by all workers since the sampler started."""

    @property
    def rate(self) -> float:
        return sum(tier.rate for tier in self.tiers)


@dataclass
class _Track:
    """A worker's latest heartbeats: the time of each (its wall clock) and the targets sent by then."""

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
        """Return the targets/s between its own heartbeats; 0 once they have stopped."""
        (first_ms, first), (last_ms, last) = self.beats[0], self.beats[-1]
        if last_ms <= first_ms or now_s - self.changed_s > WINDOW_S:
            return 0.0
        return (last.get(tier, 0) - first.get(tier, 0)) * 1000 / (last_ms - first_ms)


@dataclass
class Sampler:
    """Takes samples.

    Rates come from the workers' cumulative counts and the times of their heartbeats. They are therefore correct while
    workers join and leave, and wherever a sample falls between two heartbeats.
    """

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
        return Sample(
            at_s=now_s,
            settings=settings,
            tiers=tier_figures(settings, sending, rates),
            tasks=tasks,
            sending=sending,
            workers=workers,
            sent=sent,
        )


def tier_figures(settings: Globals, sending: list[TaskView], rates: dict[str, float]) -> list[TierFigures]:
    """Return the figures of every tier, highest first."""
    backlog = {tier: sum(task.targets.pending for task in sending if task.tier == tier) for tier in map(str, TIERS)}
    shares, total = wanted_shares(settings.tier_milli, backlog), sum(rates.values())
    return [
        TierFigures(
            tier=tier,
            weight=settings.tier_milli[tier],
            wanted=shares[tier],
            actual=rates[tier] / total if total else None,
            rate=rates[tier],
            backlog=backlog[tier],
            drain_s=drain_s(backlog[tier], rates[tier]),
        )
        for tier in map(str, TIERS)
    ]
