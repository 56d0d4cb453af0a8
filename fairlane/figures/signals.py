"""Signals for autoscaling: the backlog of each tier, how fast it comes and goes, and what more could be sent.

The same figures for the metrics of any worker and for `fairlane signals`.
"""

import math
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from backends.redis.task_rows import LiveTask
from dispatcher.analysis.forecast import ForecastTask, Shares, TaskClass, rates_of
from dispatcher.analysis.served import Served, WaitingTasks, waiting_of
from dispatcher.analysis.situation import sendable, shares_of
from dispatcher.model.service_settings import pools_of
from dispatcher.model.tier import TIERS
from dispatcher.model.view import Globals, WorkerBeat

WINDOW_S = 6.0
"""Arrivals are counted over this much of the past; what is sent comes from heartbeats, over the last 3 s."""
BEHIND_S = 1.0
"""A tier with more backlog than this, at the recent rate, is behind; less is merely under way."""
_USED = 0.9
"""From this part of what capacity and caps allow on, they are what limits the rate."""
_FULL = 0.999
"""From this part of it on, a cap or the capacity counts as used up in the model."""
_GROW_AT_MOST = 2.0
"""What a worker sends is known at the present number of them only: no further than twice as many are asked for."""


class TierSignals(NamedTuple):
    """backlog: targets that may be sent now and have no outcome. arrival_rate, rate: targets/s that come in and that
    were sent recently. drain_s: until the backlog is sent, at this rate; 0 without one, None if none of it is being
    sent. wanted: share by weight among the tiers that have a backlog; actual: its part of what is sent. spare:
    targets/s it could send more if it had them, None without any limit."""

    tier: str
    weight: float
    backlog: int
    arrival_rate: float
    rate: float
    drain_s: float | None
    wanted: float
    actual: float
    spare: float | None


class Signals(NamedTuple):
    """What limits the service, and how many workers it needs."""

    capacity: int
    """Targets/s, 0 for unlimited."""
    rate: float
    """Targets/s sent recently."""
    workers: int
    """Workers that serve."""
    limited_by: str
    """`demand`: no tier is behind. `capacity`: all of it is used. `caps`: the rest of the capacity is no use to what
    waits, because caps hold it back. `workers`: more of them would send more."""
    caps: list[str]
    """The caps that hold back what waits, whatever else does: `task/ID`, `channel/NAME`, `app/NAME`, …"""
    workers_needed: int
    """Workers that would send what capacity and caps allow, at most twice the present number and at least 1; 0 where
    demand limits the rate, because then nothing tells."""
    tiers: list[TierSignals]
    """One for each tier; none while the backlog is not known."""
    missing: list[WaitingTasks] = []  # noqa: RUF012  # a field of a tuple
    """Tasks whose channel no live worker has. They are in no backlog: more of the same workers would not send them."""

    def of(self, tier: str) -> TierSignals:
        return next(signals for signals in self.tiers if signals.tier == tier)


def signals_without_counts(capacity: int) -> Signals:
    """Return the signals of a service whose counts only a worker can restore, while no worker runs: it needs one."""
    return Signals(capacity, 0.0, workers=0, limited_by="workers", caps=[], workers_needed=1, tiers=[])


@dataclass(frozen=True)
class ServiceState:
    """What signals are made of, read at one moment. jobs: pending is what is published less what is settled."""

    at_s: float
    jobs: Sequence[ForecastTask]
    settings: Globals
    beats: Sequence[WorkerBeat]


def job_of_live(task: LiveTask, now_ms: int) -> ForecastTask:
    held = task.state not in ("running", "scheduled") or (task.hold and not task.sealed)
    pending, start_s = float(task.pending), max(0, task.start_ms - now_ms) / 1000
    return ForecastTask(
        task.id, task.app, task.channel, task.tier, max(1, task.weight), pending, task.cap, start_s, held
    )


@dataclass
class SignalMeter:
    """Makes signals of the looks it is given; one is enough but for arrivals, which take two."""

    _queues: deque[tuple[float, dict[str, int]]] = field(default_factory=deque)

    def take(self, look: ServiceState) -> Signals:
        shares = shares_of(look.settings)
        jobs = [job for job in look.jobs if sendable(job, look.settings)]
        missing = waiting_of(Served.by(look.beats), ((job.channel, job.pending) for job in jobs))
        lacking = {waiting.channel for waiting in missing}
        jobs = [job for job in jobs if job.channel not in lacking]
        backlog = _by_tier(jobs, lambda job: job.pending)
        alive = [beat for beat in look.beats if beat.state in ("serving", "draining")]
        rates = {tier: sum(_rate(beat, tier) for beat in alive) for tier in backlog}
        arrivals = self._arrivals(look.at_s, {tier: round(targets) for tier, targets in backlog.items()}, rates)
        load = _Load(jobs, shares, backlog, rates, arrivals)
        serving = sum(beat.state == "serving" for beat in alive)
        caps = load.binding_caps()
        limited_by, needed = load.limit(serving, caps)
        tiers = [load.signals(tier) for tier in backlog]
        rate = sum(rates.values())
        return Signals(look.settings.capacity, rate, serving, limited_by, caps, needed, tiers, missing)

    def _arrivals(self, now_s: float, backlog: dict[str, int], rates: Mapping[str, float]) -> dict[str, float]:
        """What the queues grew by, and what was sent meanwhile."""
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
        """Whether more waits than is merely under way."""
        return self.backlog[tier] > self.rates[tier] * BEHIND_S

    def limit(self, workers: int, caps: Sequence[str]) -> tuple[str, int]:
        """Return what limits the rate, and how many workers are needed. caps: those that bind."""
        if not any(map(self.behind, self.backlog)):
            return "demand", 0
        rate, possible = sum(self.rates.values()), sum(self._possible().values())
        if rate >= _USED * possible:
            return "caps" if caps and possible < _FULL * self.shares.capacity else "capacity", workers
        growth = min(_GROW_AT_MOST, possible / rate) if rate else _GROW_AT_MOST
        return "workers", max(1, math.ceil(workers * growth))

    def binding_caps(self) -> list[str]:
        """Return the caps that are used up when what is behind gets all that capacity and caps allow, by name."""
        jobs = [job for job in self.jobs if self.behind(job.tier)]
        flows = [self._flow(job) for job in jobs]
        used: dict[str, float] = defaultdict(float)
        binding: set[str] = set()
        for job, flow, rate in zip(jobs, flows, rates_of(flows, self.shares), strict=True):
            if job.cap and rate >= _FULL * job.cap:
                binding.add(f"task/{job.id}")
            for pool in flow.pools:
                used[pool] += rate
        return sorted(binding | {pool for pool, rate in used.items() if rate >= _FULL * self.shares.caps[pool]})

    def signals(self, tier: str) -> TierSignals:
        backlog, rate, total = self.backlog[tier], self.rates[tier], sum(self.rates.values())
        weights = sum(self.shares.tier_weights[name] for name, targets in self.backlog.items() if targets)
        spare = self._possible(tier)[tier] - rate if self.shares.capacity < math.inf else None
        return TierSignals(
            tier,
            self.shares.tier_weights[tier] / 1000,
            round(backlog),
            self.arrivals[tier],
            rate,
            0.0 if not backlog else backlog / rate if rate else None,
            self.shares.tier_weights[tier] / weights if backlog else 0.0,
            rate / total if total else 0.0,
            None if spare is None else max(0.0, spare),
        )

    def _possible(self, probed: str = "") -> dict[str, float]:
        """Targets/s by tier that capacity and caps allow; probed: a tier taken to have any number of targets more."""
        flows = [self._flow(job) for job in self.jobs if self.behind(job.tier)]
        flows += [
            TaskClass(tier, "", (), 1.0, max(self.rates[tier], self.arrivals[tier]))
            for tier in self.backlog
            if not self.behind(tier) and max(self.rates[tier], self.arrivals[tier]) > 0
        ]
        if probed:
            flows.append(TaskClass(probed, "", (), 1.0))
        possible = dict.fromkeys(self.backlog, 0.0)
        for flow, rate in zip(flows, rates_of(flows, self.shares), strict=True):
            possible[flow.tier] += rate
        return possible

    def _flow(self, job: ForecastTask) -> TaskClass:
        pools = tuple(pool for pool in pools_of(job.app, job.channel) if pool in self.shares.caps)
        return TaskClass(job.tier, job.app, pools, job.weight, job.cap or math.inf)


def _by_tier(jobs: Sequence[ForecastTask], number: Callable[[ForecastTask], float]) -> dict[str, float]:
    found = dict.fromkeys(map(str, TIERS), 0.0)
    for job in jobs:
        found[job.tier] += number(job)
    return found


def _rate(beat: WorkerBeat, tier: str) -> float:
    stats = beat.tiers.get(tier)
    return stats.rate if stats else 0.0
