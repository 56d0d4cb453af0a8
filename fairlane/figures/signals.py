"""Signals for autoscaling: the backlog of each tier, its arrival and send rates, and what more could be sent.

The metrics of every worker and `fairlane signals` show the same figures.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from backends.redis.registry.task_rows import LiveTask
from dispatcher.analysis.rates import (
    BEHIND_S,
    FULL,
    ForecastTask,
    Shares,
    TaskKind,
    binding_caps,
    rates_of,
    sendable,
    shares_of,
    targets_per_request,
    tier_rates,
)
from dispatcher.analysis.served import Served, WaitingTasks, waiting_of
from dispatcher.model.tier import TIERS
from dispatcher.model.view import Globals, WorkerBeat

WINDOW_S = 6.0
"""Window over which arrivals are counted. The send rate comes from heartbeats, over the last 3 s."""
_USED = 0.9
"""Capacity and caps limit the rate if at least this part of them is used."""
_GROW_AT_MOST = 2.0
"""Limit on the recommended growth, as a multiple of the present number of workers.

The rate per worker is known only at the present number, so at most twice as many are recommended.
"""


class TierSignals(NamedTuple):
    """Backlog and rates of one tier."""

    tier: str
    weight: float
    backlog: int
    """Targets that may be sent now and have no outcome."""
    arrival_rate: float
    """Targets/s that arrived recently."""
    rate: float
    """Targets/s sent recently."""
    drain_s: float | None
    """Time to send the backlog at this rate. 0: there is no backlog. None: none of it is being sent."""
    wanted: float
    """Share by weight among the tiers that have a backlog."""
    actual: float
    """Share of all targets sent."""
    spare: float | None
    """Targets/s that could be sent in addition if there were more targets. None: there is no limit."""


class Signals(NamedTuple):
    """The signals: what limits the service, and how many workers it needs."""

    capacity: int
    """Targets/s, 0 for unlimited."""
    rate: float
    """Targets/s sent recently."""
    workers: int
    """Workers that are serving."""
    limited_by: str
    """The limit of the rate.

    `demand`: no tier is behind. `capacity`: all of it is used. `caps`: caps hold back the backlog, so that it cannot
    use the rest of the capacity. `workers`: more workers would send more.
    """
    caps: list[str]
    """The caps that hold back the backlog, whatever else does: `task/ID`, `channel/NAME`, `app/NAME`, …"""
    workers_needed: int
    """Number of workers needed to send what capacity and caps allow.

    At least 1 and at most twice the present number. 0 if demand limits the rate, because the number cannot be derived
    then.
    """
    tiers: list[TierSignals]
    """One for each tier; empty while the backlog is not known."""
    missing: list[WaitingTasks] = []  # noqa: RUF012  # a field of a tuple
    """Tasks whose channel no live worker has. They are in no backlog: more of the same workers would not send them."""

    def of(self, tier: str) -> TierSignals:
        return next(signals for signals in self.tiers if signals.tier == tier)


def signals_without_counts(capacity: int) -> Signals:
    """Return the signals of a service whose counts were lost while no worker runs; it needs one worker."""
    return Signals(capacity=capacity, rate=0.0, workers=0, limited_by="workers", caps=[], workers_needed=1, tiers=[])


@dataclass(frozen=True)
class ServiceState:
    """Input of the signals, read at one moment."""

    at_s: float
    jobs: Sequence[ForecastTask]
    """For these, pending is the number of published targets less the number of settled ones."""
    settings: Globals
    beats: Sequence[WorkerBeat]


def wanted_shares(weights: Mapping[str, float], backlog: Mapping[str, float]) -> dict[str, float | None]:
    """Return the share by weight of each tier that has a backlog; None for the others."""
    total = sum(weights[tier] for tier, targets in backlog.items() if targets)
    return {tier: weights[tier] / total if targets else None for tier, targets in backlog.items()}


def drain_s(backlog: float, rate: float) -> float | None:
    """Return the time to send the backlog at this rate. 0: there is no backlog. None: none of it is being sent."""
    return 0.0 if not backlog else backlog / rate if rate else None


def job_of_live(task: LiveTask, now_ms: int) -> ForecastTask:
    return ForecastTask(
        id=task.id,
        app=task.app,
        channel=task.channel,
        tier=task.tier,
        weight=max(1, task.weight),
        pending=float(task.pending),
        cap=task.cap,
        start_s=max(0, task.start_ms - now_ms) / 1000,
        on_hold=task.on_hold,
        per_request=targets_per_request(task.channel, task.chunk),
        chunk=task.chunk,
    )


@dataclass
class SignalMeter:
    """Computes signals from successive states. One state is enough for everything but arrivals, which take two."""

    _queues: deque[tuple[float, dict[str, int]]] = field(default_factory=deque)

    def take(self, state: ServiceState) -> Signals:
        shares = shares_of(state.settings)
        jobs = [job for job in state.jobs if sendable(job, state.settings)]
        missing = waiting_of(Served.by(state.beats), ((job.channel, job.pending, job.tasks) for job in jobs))
        lacking = {waiting.channel for waiting in missing}
        jobs = [job for job in jobs if job.channel not in lacking]
        backlog = {tier: sum(job.pending for job in jobs if job.tier == tier) for tier in map(str, TIERS)}
        rates = tier_rates(state.beats)
        arrivals = self._arrivals(state.at_s, {tier: round(targets) for tier, targets in backlog.items()}, rates)
        load = _Load(jobs, shares, backlog, rates, arrivals)
        serving = sum(beat.state == "serving" for beat in state.beats)
        caps = load.binding_caps()
        limited_by, needed = load.limit(serving, caps)
        tiers = [load.signals(tier) for tier in backlog]
        rate = sum(rates.values())
        return Signals(
            capacity=state.settings.capacity,
            rate=rate,
            workers=serving,
            limited_by=limited_by,
            caps=sorted(caps),
            workers_needed=needed,
            tiers=tiers,
            missing=missing,
        )

    def _arrivals(self, now_s: float, backlog: dict[str, int], rates: Mapping[str, float]) -> dict[str, float]:
        """Return arrivals in targets/s: the growth of the backlog plus what was sent meanwhile."""
        self._queues.append((now_s, backlog))
        while len(self._queues) > 2 and self._queues[1][0] <= now_s - WINDOW_S:
            self._queues.popleft()
        at_s, before = self._queues[0]
        if now_s <= at_s:
            return dict(rates)
        return {tier: max(0.0, (backlog[tier] - before[tier]) / (now_s - at_s) + rates[tier]) for tier in backlog}


@dataclass(frozen=True)
class _Load:
    jobs: Sequence[ForecastTask]
    shares: Shares
    backlog: Mapping[str, float]
    rates: Mapping[str, float]
    arrivals: Mapping[str, float]

    def behind(self, tier: str) -> bool:
        """Return whether more targets wait than are merely in transit."""
        return self.backlog[tier] > self.rates[tier] * BEHIND_S

    def limit(self, workers: int, caps: Mapping[str, float]) -> tuple[str, int]:
        """Return what limits the rate, and the number of workers needed. `caps`: those that bind, as binding_caps."""
        if not any(map(self.behind, self.backlog)):
            return "demand", 0
        rate, possible = sum(self.rates.values()), sum(self._possible().values())
        if workers and rate >= _USED * (possible - sum(caps.values())):
            return "caps" if caps and possible < FULL * self.shares.capacity else "capacity", workers
        growth = min(_GROW_AT_MOST, possible / rate) if rate else _GROW_AT_MOST
        return "workers", max(1, math.ceil(workers * growth))

    def binding_caps(self) -> dict[str, float]:
        """Return the caps that are used up when the tiers that are behind get all that capacity and caps allow."""
        jobs = [job for job in self.jobs if self.behind(job.tier)]
        return binding_caps(jobs, rates_of(list(map(self._kind_of, jobs)), self.shares), self.shares)

    def signals(self, tier: str) -> TierSignals:
        backlog, rate, total = self.backlog[tier], self.rates[tier], sum(self.rates.values())
        spare = self._possible(tier)[tier] - rate if self.shares.capacity < math.inf else None
        return TierSignals(
            tier=tier,
            weight=self.shares.tier_weights[tier] / 1000,
            backlog=round(backlog),
            arrival_rate=self.arrivals[tier],
            rate=rate,
            drain_s=drain_s(backlog, rate),
            wanted=wanted_shares(self.shares.tier_weights, self.backlog)[tier] or 0.0,
            actual=rate / total if total else 0.0,
            spare=None if spare is None else max(0.0, spare),
        )

    def _possible(self, probed: str = "") -> dict[str, float]:
        """Return the targets/s per tier that capacity and caps allow.

        `probed`: a tier assumed to have unlimited targets.
        """
        kinds = [self._kind_of(job) for job in self.jobs if self.behind(job.tier)]
        kinds += [
            TaskKind(tier, "", (), 1.0, max(self.rates[tier], self.arrivals[tier]))
            for tier in self.backlog
            if not self.behind(tier) and max(self.rates[tier], self.arrivals[tier]) > 0
        ]
        if probed:
            kinds.append(TaskKind(probed, "", (), 1.0))
        possible = dict.fromkeys(self.backlog, 0.0)
        for kind, rate in zip(kinds, rates_of(kinds, self.shares), strict=True):
            possible[kind.tier] += rate
        return possible

    def _kind_of(self, job: ForecastTask) -> TaskKind:
        pools, limit = self.shares.pools_of(job), job.cap or math.inf
        return TaskKind(job.tier, job.app, pools, job.weight, limit, job.per_request)
