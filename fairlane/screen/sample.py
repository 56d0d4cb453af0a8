"""Figures of the whole service at one moment."""

from dataclasses import dataclass
from typing import Protocol

from dispatcher.analysis.rates import sendable, tier_rates
from dispatcher.analysis.served import Served
from dispatcher.analysis.situation import job_of_view
from dispatcher.clock import Clock
from dispatcher.model.tier import TIERS
from dispatcher.model.view import Globals, TaskView, WorkerBeat
from fairlane.figures.signals import drain_s, wanted_shares


class SampleSource(Protocol):
    """The data source of a sample; PushClient is one."""

    def globals(self) -> Globals: ...

    def workers(self) -> list[WorkerBeat]: ...

    def live_tasks(self) -> list[TaskView]: ...


@dataclass(frozen=True, kw_only=True)
class TierFigures:
    """Figures of one tier."""

    tier: str
    weight: float
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

    @property
    def rate(self) -> float:
        return sum(tier.rate for tier in self.tiers)


def sample_of(source: SampleSource, clock: Clock) -> Sample:
    """Take a sample. The rates are those of the workers' heartbeats."""
    settings, workers = source.globals(), source.workers()
    tasks = sorted(source.live_tasks(), key=lambda task: (task.created_ms, task.id))
    now_ms, served = clock.wall_ms(), Served.by(workers)
    served_tasks = [task for task in tasks if not served.lacks(task.channel)]
    sending = [task for task in served_tasks if sendable(job_of_view(task, now_ms), settings)]
    return Sample(
        at_s=clock.monotonic_s(),
        settings=settings,
        tiers=tier_figures(settings, sending, tier_rates(workers)),
        tasks=tasks,
        sending=sending,
        workers=workers,
    )


def tier_figures(settings: Globals, sending: list[TaskView], rates: dict[str, float]) -> list[TierFigures]:
    """Return the figures of every tier, highest first."""
    backlog = {tier: sum(task.targets.pending for task in sending if task.tier == tier) for tier in map(str, TIERS)}
    shares, total = wanted_shares(settings.tier_weights, backlog), sum(rates.values())
    return [
        TierFigures(
            tier=tier,
            weight=settings.tier_weights[tier],
            wanted=shares[tier],
            actual=rates[tier] / total if total else None,
            rate=rates[tier],
            backlog=backlog[tier],
            drain_s=drain_s(backlog[tier], rates[tier]),
        )
        for tier in map(str, TIERS)
    ]
