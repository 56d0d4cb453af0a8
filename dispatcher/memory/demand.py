"""Announced demand of lanes: who shares a pool, by what weight. quotas/lua/demand.lua does the same in Redis."""

from dispatcher.lease import LeaseRequest
from dispatcher.memory.pools import UNIT, TierPool, depth_of, portion
from dispatcher.memory.verdicts import LaneCall
from dispatcher.memory.view import Demand, MemoryView
from dispatcher.tier import MILLI

DEBT_MS = 60_000
"""How long a lane that went idle ahead of its tier is remembered."""
APP_SCALE = 100
"""Where apps share, a lane's weight is its part of its app's; times this, so that it is a whole number still."""


def forget_past(view: MemoryView, now_ms: int) -> None:
    """Takes out the demand whose time has passed. A lane that is ahead of its tier is remembered a while."""
    for lane in [lane for lane, (until, _) in view.debts.items() if until <= now_ms]:
        _leave(view, lane, view.debts.pop(lane)[1])
    for lane in [lane for lane, demand in view.demand.items() if demand.until_ms <= now_ms]:
        demand = _withdraw(view, lane)
        if demand.part:
            view.app_parts[demand.tier, demand.app] -= demand.part
        if any(view.pools[name].is_ahead(lane, demand.tier) for name in demand.pools):
            view.debts[lane] = now_ms + DEBT_MS, demand.pools
        else:
            _leave(view, lane, demand.pools)


def _leave(view: MemoryView, lane: str, pools: tuple[str, ...]) -> None:
    """The lane's time in these pools is forgotten."""
    for name in pools:
        view.pools[name].lanes.pop(lane, None)


def _withdraw(view: MemoryView, lane: str) -> Demand:
    demand = view.demand.pop(lane)
    for name in demand.pools:
        _count(view.pools[name].tiers[demand.tier], demand, -1)
    return demand


def _count(share: TierPool, demand: Demand, sign: int) -> None:
    share.wanted += sign * demand.targets
    if demand.waiting:
        share.waiting += sign * demand.weight
    else:
        share.busy += sign * demand.weight


def announce(view: MemoryView, lanes: list[LaneCall], request: LeaseRequest) -> None:
    """Takes in what the lanes of a call want; a lane that is parked or in no pool wants nothing."""
    now_ms = view.now_ms()
    for lane in lanes:
        _take_part(view, lane)
    for lane in lanes:
        _announce(view, lane, request, now_ms)


def _wants(view: MemoryView, lane: LaneCall) -> bool:
    return bool(not lane.parked and lane.pools and (lane.asked > 0 or lane.name in view.demand))


def _take_part(view: MemoryView, lane: LaneCall) -> None:
    """Counts the lane's part of its app, before any lane's weight is made of it."""
    old = view.demand.get(lane.name)
    if old is not None and old.part:
        view.app_parts[old.tier, old.app] -= old.part
    if view.sharing == "apps" and lane.app and _wants(view, lane):
        lane.part = lane.weight
        view.app_parts[lane.tier, lane.app] += lane.part


def _weight(view: MemoryView, lane: LaneCall) -> int:
    """By task weight; where apps share, the lane's part of its app's. What holds tasks of many apps counts as one."""
    if view.sharing != "apps":
        return lane.weight
    if not lane.app:
        return MILLI * APP_SCALE
    of_app = view.app_weights.get(lane.app, MILLI) * APP_SCALE
    return max(portion(of_app, lane.part, view.app_parts[lane.tier, lane.app]), 1)


def _announce(view: MemoryView, lane: LaneCall, request: LeaseRequest, now_ms: int) -> None:
    wants = _wants(view, lane)
    old = _withdraw(view, lane.name) if lane.name in view.demand else None
    lane.idle = old is None
    if not wants:
        if old is not None:
            view.debts[lane.name] = now_ms + DEBT_MS, old.pools
        return
    lane.weight = _weight(view, lane)
    lane.waited = old is not None and not lane.waiting and old.held_until_ms <= now_ms
    demand = _demand(view, lane, old, request, now_ms)
    before = old.pools if old is not None else view.debts.pop(lane.name, (0, ()))[1]
    if before != lane.pools:
        _leave(view, lane.name, tuple(name for name in before if name not in lane.pools))
    view.demand[lane.name] = demand
    for pool in lane.bound:
        _count(pool.tiers[lane.tier], demand, 1)


def _demand(view: MemoryView, lane: LaneCall, old: Demand | None, request: LeaseRequest, now_ms: int) -> Demand:
    """The largest demand announced of late counts, so that a holder with an empty buffer does not hide another's."""
    targets = _within_caps(view, lane)
    until = now_ms + (request.waiting_ms if lane.waiting else request.demand_ms)
    held_until = 0 if lane.waiting else until
    demand = Demand(
        lane.tier,
        lane.weight,
        targets,
        until,
        until,
        held_until,
        lane.pools,
        lane.app,
        lane.part,
        lane.waiting,
    )
    if old is not None:
        if old.targets > targets and old.targets_until_ms > now_ms:
            demand.targets, demand.targets_until_ms = old.targets, old.targets_until_ms
        demand.until_ms = max(old.until_ms, until if targets > 0 else 0)
        demand.held_until_ms = max(old.held_until_ms, held_until)
    return demand


def _within_caps(view: MemoryView, lane: LaneCall) -> int:
    """What the lane wants, cut to what its caps let through in a window: its task's, and its part of its pools'. So
    its tier keeps no more of the capacity from the others than it can use."""
    targets = lane.asked
    if lane.cap:
        targets = min(targets, depth_of(lane.cap, lane.cap_burst) // UNIT)
    for name in lane.pools if view.caps else ():
        rate, burst = view.caps.get(name, (0, 0))
        if rate:
            share = view.pools[name].tiers[lane.tier]
            others = share.busy + share.waiting
            targets = min(targets, max(portion(depth_of(rate, burst), lane.weight, others + lane.weight) // UNIT, 1))
    return targets
