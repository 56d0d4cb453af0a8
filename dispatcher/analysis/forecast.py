"""Forecast when each task is done, with a fluid model of the service: no envelopes and no windows, only rates.

Every pool (the total, and each cap of a channel, an app, an app on a channel) is divided as the ledger divides it: by
the weights of the tiers, and within a tier by the weights of the tasks (or of the apps and then of their tasks). Unused
parts go to the others by weight. A task's rate is the lowest that its pools and its own cap allow. Rates hold until a
task is done or starts; then they are computed again.

Compared with the real service once (two workers, 2,000 targets/s, eight tasks of three tiers, one app and one task
capped, 17 to 67 s): every end was within 1.2 % of the forecast at the start.

The model leaves out that a shared lane is first in, first out, as well as retries, and workers that cannot send at the
full capacity.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from dispatcher.model.flow_pause import flow_name
from dispatcher.model.pools import TOTAL, pools_of, quota_pool
from dispatcher.model.tier import MILLI, SHARED_BY

MAX_STEPS = 2_000
"""With more tasks than this, ends that are close together are combined into one moment."""
_ROUNDS = 12
_EPSILON = 1e-9


class ForecastTask(NamedTuple):
    """A task as input of the forecast."""

    id: str
    app: str
    channel: str
    tier: str
    weight: int
    """In thousandths."""
    pending: float
    """Targets to be sent."""
    cap: int = 0
    """In targets/s; 0 for none."""
    start_s: float = 0.0
    """When it may start, in seconds from now."""
    on_hold: bool = False
    """True if it is paused or waits for its audience, so that no end can be predicted."""
    per_request: int = 1
    """Targets of one request to its provider."""


@dataclass(frozen=True, kw_only=True)
class Shares:
    """How the capacity is shared."""

    capacity: float
    """In targets/s; inf for unlimited."""
    tier_weights: Mapping[str, int]
    """In thousandths, by tier."""
    caps: Mapping[str, float] = field(default_factory=dict)
    """In targets/s, by pool."""
    request_caps: frozenset[str] = frozenset()
    """Pools whose caps are in requests/s instead."""
    quotas: Mapping[str, str] = field(default_factory=dict)
    """Quota groups by flow (`CHANNEL/APP`)."""
    paused: frozenset[str] = frozenset()
    """Paused channels."""
    paused_flows: frozenset[str] = frozenset()
    """Apps that are paused on a channel, as `CHANNEL/APP`."""
    sharing: str = SHARED_BY[0]
    """`tasks` or `apps`."""
    app_weights: Mapping[str, int] = field(default_factory=dict)
    """In thousandths."""

    def pools_of(self, job: ForecastTask) -> tuple[str, ...]:
        """Return the pools, besides the total, that cap a task."""
        group = self.quotas.get(flow_name(job.channel, job.app))
        pools = (*pools_of(job.app, job.channel), *([quota_pool(group)] if group else []))
        return tuple(pool for pool in pools if self.caps.get(pool))

    def stops(self, job: ForecastTask) -> bool:
        """Return whether a pause of its channel, or of its app on the channel, stops a task."""
        return job.channel in self.paused or flow_name(job.channel, job.app) in self.paused_flows


@dataclass(slots=True)
class TaskKind:
    """Tasks that the model treats alike: of one tier, app and channel, sharing by their weights."""

    tier: str
    app: str
    pools: tuple[str, ...]
    """The capped pools of these tasks."""
    weight: float
    limit: float = inf
    """In targets/s, for a single task with its own cap."""
    per_request: int = 1
    """Targets of one request to their provider."""

    def unit(self, pool: str, shares: Shares) -> int:
        """Return how many of their targets count as one in a pool's cap."""
        return self.per_request if pool in shares.request_caps else 1


# ------------------------------------------------------------------------------------------- the rates of a moment


def waterfill(amount: float, needs: Sequence[tuple[float, float]]) -> list[float]:
    """Divide an amount between (need, weight) pairs by weight. No share exceeds its need; the rest goes to the others.
    With an unlimited amount, each share is its need."""
    shares = [0.0] * len(needs)
    weights = sum(weight for _, weight in needs)
    remaining = amount
    for i in sorted(range(len(needs)), key=lambda i: needs[i][0] / needs[i][1]):
        need, weight = needs[i]
        shares[i] = min(need, remaining * weight / weights) if remaining < inf else need
        remaining = max(0.0, remaining - shares[i]) if remaining < inf else inf
        weights -= weight
    return shares


def rates_of(kinds: Sequence[TaskKind], shares: Shares) -> list[float]:
    """Return the targets/s of each kind if all have something to send; inf where nothing limits a kind.

    Each pool offers its kinds their shares, within the limits that the other pools set. This is repeated until nothing
    changes. What rounding and mutual limits leave unused is then divided by weight. In the end every kind is limited by
    its own cap or by a pool that is used up.
    """
    pools = {TOTAL: list(range(len(kinds)))}
    for i, kind in enumerate(kinds):
        for name in kind.pools:
            pools.setdefault(name, []).append(i)
    sizes = {name: shares.capacity if name == TOTAL else shares.caps[name] for name in pools}
    rates = _rates_by_pools(kinds, pools, sizes, shares)
    return _with_rest(kinds, pools, sizes, rates, shares)


def _rates_by_pools(
    kinds: Sequence[TaskKind], pools: Mapping[str, list[int]], sizes: Mapping[str, float], shares: Shares
) -> list[float]:
    offers = {name: dict.fromkeys(members, inf) for name, members in pools.items()}
    rates = [kind.limit for kind in kinds]
    for _ in range(_ROUNDS if len(pools) > 1 else 1):
        for name, members in pools.items():
            units = [kinds[i].unit(name, shares) for i in members]
            limits = [_limit_by(offers, kinds[i], i, name) / unit for i, unit in zip(members, units, strict=True)]
            offered = _offers_of(sizes[name], [kinds[i] for i in members], limits, shares)
            offers[name] = {i: part * unit for i, part, unit in zip(members, offered, units, strict=True)}
        before, rates = rates, [_limit_by(offers, kind, i) for i, kind in enumerate(kinds)]
        if all(_close(old, new) for old, new in zip(before, rates, strict=True)):
            break
    return rates


def _limit_by(offers: Mapping[str, Mapping[int, float]], kind: TaskKind, index: int, except_pool: str = "") -> float:
    """Return the lowest rate that a kind's pools (except `except_pool`) and its own cap allow it."""
    return min([kind.limit, *(offers[pool][index] for pool in (TOTAL, *kind.pools) if pool != except_pool)])


def _offers_of(size: float, kinds: Sequence[TaskKind], limits: Sequence[float], shares: Shares) -> list[float]:
    """Return a pool's offers: divided by tier, then by app if apps share, then by kind."""
    offered = [0.0] * len(kinds)

    def share(amount: float, members: list[int], keys: list[str]) -> None:
        if not keys:
            parts = waterfill(amount, [(limits[i], kinds[i].weight) for i in members])
            for i, part in zip(members, parts, strict=True):
                offered[i] = part
            return
        groups: dict[str, list[int]] = {}
        for i in members:
            groups.setdefault(getattr(kinds[i], keys[0]), []).append(i)
        weights = shares.tier_weights if keys[0] == "tier" else shares.app_weights
        needs = [(sum(limits[i] for i in group), float(weights.get(name, MILLI))) for name, group in groups.items()]
        for part, group in zip(waterfill(amount, needs), groups.values(), strict=True):
            share(part, group, keys[1:])

    share(size, list(range(len(kinds))), ["tier", "app"] if shares.sharing == "apps" else ["tier"])
    return offered


def _with_rest(
    kinds: Sequence[TaskKind],
    pools: Mapping[str, list[int]],
    sizes: Mapping[str, float],
    rates: list[float],
    shares: Shares,
) -> list[float]:
    """Return the rates with the unused rest divided by weight, until every kind is at a limit."""
    units = {name: {i: kinds[i].unit(name, shares) for i in members} for name, members in pools.items()}
    while True:
        remaining = {name: sizes[name] - sum(rates[i] / n for i, n in of.items()) for name, of in units.items()}
        growing = [
            i
            for i, kind in enumerate(kinds)
            if not _close(rates[i], kind.limit)
            and all(remaining[p] == inf or remaining[p] > _EPSILON * sizes[p] for p in (TOTAL, *kind.pools))
        ]
        if not growing:
            return rates
        pulls = {i: shares.tier_weights.get(kinds[i].tier, MILLI) * kinds[i].weight for i in growing}
        step = min(
            [(kinds[i].limit - rates[i]) / pull for i, pull in pulls.items()]
            + [
                remaining[p] / sum(pulls.get(i, 0.0) / n for i, n in of.items())
                for p, of in units.items()
                if any(i in pulls for i in of)
            ]
        )
        if step == inf:
            return [inf if i in pulls else rate for i, rate in enumerate(rates)]
        rates = [rate + pulls.get(i, 0.0) * step for i, rate in enumerate(rates)]


def _close(one: float, other: float) -> bool:
    return one == other or (max(one, other) < inf and abs(one - other) <= _EPSILON * max(1.0, one, other))


# ------------------------------------------------------------------------------------------- from now to the last end


class Forecast(NamedTuple):
    """When each task is done, and its current rate."""

    done_s: dict[str, float | None]
    """By task, seconds from now; None if no end can be predicted."""
    rates: dict[str, float]
    """Current targets/s by task."""


@dataclass(slots=True)
class _Queue:
    """The jobs of one kind. A job is done when `level` reaches the job's own level."""

    kind: TaskKind
    level: float = 0.0
    """Targets sent per unit of weight."""
    ends: list[tuple[float, str, int]] = field(default_factory=list)

    def add(self, job: ForecastTask) -> None:
        heapq.heappush(self.ends, (self.level + job.pending / job.weight, job.id, job.weight))
        self.kind.weight += job.weight

    def next_s(self, rate: float) -> float:
        """Return the seconds until its next job is done."""
        if rate == inf:
            return 0.0
        return (self.ends[0][0] - self.level) * self.kind.weight / rate if rate > 0 else inf

    def run(self, rate: float, seconds: float) -> list[str]:
        """Advance the queue. Return the jobs that are done by then; ends within the time count as at its end."""
        self.level = inf if rate == inf else self.level + rate * seconds / self.kind.weight
        done: list[str] = []
        while self.ends and self.ends[0][0] <= self.level * (1 + _EPSILON) + _EPSILON:
            _, job, weight = heapq.heappop(self.ends)
            self.kind.weight -= weight
            done.append(job)
        return done


def forecast(jobs: Iterable[ForecastTask], shares: Shares, max_steps: int = MAX_STEPS) -> Forecast:
    """Return when each task is done. The model steps from one end (or start) of a task to the next, in about
    `max_steps` steps."""
    done_s: dict[str, float | None] = {}
    waiting: list[tuple[float, str, ForecastTask]] = []
    for job in jobs:
        done_s[job.id] = None
        if job.pending <= 0:
            done_s[job.id] = 0.0
        elif not (job.on_hold or shares.stops(job)):
            waiting.append((max(0.0, job.start_s), job.id, job))
    waiting.sort()
    sharing = _Sharing(shares, [job for start_s, _, job in waiting if start_s == 0])
    rates_now = sharing.rates_by_job()
    later = [(start_s, job) for start_s, _, job in waiting if start_s > 0]
    step_of = max(1, len(waiting) // max_steps)
    now_s = 0.0
    while sharing.queues or later:
        rates = sharing.rates()
        lasts_s = sharing.lasts_s(rates, step_of)
        start_s = later[0][0] if later else inf
        if now_s + lasts_s >= start_s:
            lasts_s = start_s - now_s
        if lasts_s == inf:
            break
        now_s += lasts_s
        for job_id in sharing.run(rates, lasts_s):
            done_s[job_id] = now_s
        while later and later[0][0] <= now_s:
            sharing.add(later.pop(0)[1])
    return Forecast(done_s, rates_now)


class _Sharing:
    """The queues of tasks that are not done, and how they share the capacity."""

    def __init__(self, shares: Shares, jobs: Iterable[ForecastTask]) -> None:
        self._shares = shares
        self.queues: dict[tuple[str, str, str, str, int], _Queue] = {}
        for job in jobs:
            self.add(job)

    def add(self, job: ForecastTask) -> None:
        pools = self._shares.pools_of(job)
        per_request = 1 if self._shares.request_caps.isdisjoint(pools) else job.per_request
        key = (job.tier, job.app, job.channel, job.id if job.cap else "", per_request)
        if key not in self.queues:
            self.queues[key] = _Queue(
                TaskKind(
                    tier=job.tier,
                    app=job.app,
                    pools=pools,
                    weight=0.0,
                    limit=float(job.cap) or inf,
                    per_request=per_request,
                )
            )
        self.queues[key].add(job)

    def rates(self) -> list[float]:
        return rates_of([queue.kind for queue in self.queues.values()], self._shares)

    def rates_by_job(self) -> dict[str, float]:
        rates: dict[str, float] = {}
        for queue, rate in zip(self.queues.values(), self.rates(), strict=True):
            rates |= {job: rate * weight / queue.kind.weight for _, job, weight in queue.ends}
        return rates

    def lasts_s(self, rates: Sequence[float], jobs: int) -> float:
        """Return the seconds until `jobs` jobs are done, or the last of a queue is."""
        queues = list(zip(self.queues.values(), rates, strict=True))
        if jobs <= 1:
            return min((queue.next_s(rate) for queue, rate in queues), default=inf)
        soonest: list[float] = []
        last_s = inf
        for queue, rate in queues:
            if rate <= 0:
                continue
            of_weight = queue.kind.weight / rate
            ends = [(level - queue.level) * of_weight for level, _, _ in heapq.nsmallest(jobs, queue.ends)]
            soonest += ends
            if len(ends) == len(queue.ends):
                last_s = min(last_s, ends[-1])
        soonest.sort()
        return min(last_s, soonest[min(jobs, len(soonest)) - 1]) if soonest else inf

    def run(self, rates: Sequence[float], seconds: float) -> list[str]:
        """Run for `seconds` at these rates. Return the jobs that are done; empty queues are removed."""
        done: list[str] = []
        for queue, rate in zip(self.queues.values(), rates, strict=True):
            done += queue.run(rate, seconds)
        self.queues = {key: queue for key, queue in self.queues.items() if queue.ends}
        return done
