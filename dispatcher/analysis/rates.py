"""Rates of a moment: what workers send, and what capacity, caps and weights allow each kind of task.

Every pool (the total, and each cap of a channel, an app, an app on a channel) is divided as the ledger divides it: by
the weights of the tiers, and within a tier by the weights of the tasks (or of the apps and then of their tasks). Unused
parts go to the others by weight. A task's rate is the lowest that its pools and its own cap allow.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from dispatcher.channels.names import PROVIDERS
from dispatcher.model.flow_pause import flow_name
from dispatcher.model.pools import TOTAL, CapUnit, pools_of, quota_pool
from dispatcher.model.tier import MILLI, SHARED_BY, TIERS
from dispatcher.model.view import Globals, WorkerBeat

_ROUNDS = 12
EPSILON = 1e-9
FULL = 0.999
"""A cap or the capacity counts as used up from this part on."""


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
    tasks: int = 1
    """The number of tasks in it."""
    chunk: float = 0.0
    """Targets of one of its envelopes; of several tasks, their mean."""


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
        if not (self.paused or self.paused_flows):
            return False
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
        if len(members) == 1:
            offered[members[0]] = min(amount, limits[members[0]])
            return
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
            and all(remaining[p] == inf or remaining[p] > EPSILON * sizes[p] for p in (TOTAL, *kind.pools))
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


def _close(a: float, b: float) -> bool:
    return a == b or (max(a, b) < inf and abs(a - b) <= EPSILON * max(1.0, a, b))


SENDING = ("serving", "draining")
"""States of workers that send."""
RATES_MS = 3_000
"""How far the rates of heartbeats look back."""
BEHIND_S = 1.0
"""A backlog that takes longer than this at the present rate waits. A smaller one is merely in transit."""


def binding_caps(jobs: Sequence[ForecastTask], rates: Sequence[float], shares: Shares) -> dict[str, float]:
    """Return the caps that are used up at these rates of the tasks: `task/ID`, or a pool.

    Each comes with the targets/s of it that heartbeats may not show: what a cap lets through comes in whole envelopes,
    and some of them less often than rates look back.
    """
    binding, used, envelopes = dict[str, float](), defaultdict[str, float](float), defaultdict[str, float](float)
    sent = defaultdict[str, float](float)
    for job, rate in zip(jobs, rates, strict=True):
        if job.cap and rate >= FULL * job.cap:
            binding[f"task/{job.id}"] = min(rate, job.tasks * job.chunk * 1000 / RATES_MS)
        for pool in shares.pools_of(job):
            sent[pool] += rate
            used[pool] += rate / (job.per_request if pool in shares.request_caps else 1)
            envelopes[pool] = max(envelopes[pool], job.chunk)
    full = [pool for pool, amount in used.items() if amount >= FULL * shares.caps[pool]]
    return binding | {pool: min(sent[pool], envelopes[pool] * 1000 / RATES_MS) for pool in full}


def sent_rate(beats: Sequence[WorkerBeat]) -> float:
    """Return the targets/s that workers send."""
    return sum(beat.rate * part for beat, part in _counted(beats))


def tier_rates(beats: Sequence[WorkerBeat]) -> dict[str, float]:
    """Return the targets/s of each tier that workers send."""
    counted = _counted(beats)
    return {
        tier: sum(beat.tiers[tier].rate * part for beat, part in counted if tier in beat.tiers)
        for tier in map(str, TIERS)
    }


def _counted(beats: Sequence[WorkerBeat]) -> list[tuple[WorkerBeat, float]]:
    """Return the workers whose rates count, and how much of them.

    Rates look back for RATES_MS. So those of a worker that has just stopped count less and less for that long, while
    those of the workers that took its lanes grow.
    """
    sending = [(beat, 1.0) for beat in beats if beat.state in SENDING]
    now_ms = max((beat.seen_ms for beat, _ in sending), default=math.inf)
    stopped = [(beat, 1.0 - max(0.0, now_ms - beat.seen_ms) / RATES_MS) for beat in beats if beat.state == "stopped"]
    return sending + [(beat, part) for beat, part in stopped if part > 0]


def targets_per_request(channel: str, chunk: int) -> int:
    """Return how many targets a request of the channel has, for envelopes of `chunk` targets. A class of a user's own
    may say something else, which only its workers know."""
    return 1 if channel in PROVIDERS else max(1, chunk)


def sendable(job: ForecastTask, settings: Globals) -> bool:
    """Return whether pauses, its start time and its audience allow some of the task to be sent now."""
    is_due = not job.on_hold and job.start_s <= 0 and job.pending > 0
    return is_due and not settings.stops(job.channel, job.app)


def shares_of(settings: Globals, workers_rate: float = math.inf) -> Shares:
    """Return how the capacity is shared. workers_rate: what the workers can send, if that is known and not 0."""
    return Shares(
        capacity=min(settings.capacity or math.inf, workers_rate or math.inf),
        tier_weights=settings.tier_milli,
        caps={pool: float(cap.rate) for pool, cap in settings.caps.items()},
        request_caps=frozenset(pool for pool in settings.caps if settings.unit(pool) is CapUnit.REQUEST),
        quotas=settings.quotas,
        paused=settings.paused_channels,
        paused_flows=frozenset(settings.flow_pauses),
        sharing=settings.sharing,
        app_weights=settings.app_milli,
    )
