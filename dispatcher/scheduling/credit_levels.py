"""Compute how much credit each lane of a worker should have."""

from collections.abc import Mapping, Sequence

from dispatcher.engine.buffers import CREDIT, WAITING, LaneBuffer
from dispatcher.model.tier import TIERS, Tier
from dispatcher.scheduling.sharing import WORK_WEIGHTS, share_out


def credit_levels(lanes: Sequence[LaneBuffer], horizon: int, weights: Mapping[Tier, int]) -> dict[str, int]:
    """Return each lane's part of `horizon` targets by name, by the weights of tiers, fresh work, retries and lanes.

    A lane that is short of credit is not in the result: the ledger divides scarce credit; only it knows all workers.
    """
    by_tier: dict[Tier, list[LaneBuffer]] = {tier: [] for tier in TIERS}
    for lane in lanes:
        if not lane.short and not lane.parked:
            by_tier[lane.tier].append(lane)
    tiers = [tier for tier in TIERS if by_tier[tier]]
    if not tiers:
        return {}
    needs = [sum(map(_need, by_tier[tier])) for tier in tiers]
    shares = share_out(horizon, [(need, weights[tier]) for need, tier in zip(needs, tiers, strict=True)])
    levels: dict[str, int] = {}
    for tier, share in zip(tiers, shares, strict=True):
        levels.update(_levels_of_tier(by_tier[tier], share))
    return levels


def _levels_of_tier(lanes: Sequence[LaneBuffer], share: int) -> dict[str, int]:
    by_work = {work: [lane for lane in lanes if lane.work is work] for work in WORK_WEIGHTS}
    parts = share_out(share, [(sum(map(_need, by_work[work])), weight) for work, weight in WORK_WEIGHTS.items()])
    levels: dict[str, int] = {}
    for sharing, part in zip(by_work.values(), parts, strict=True):
        if sharing:
            needs = [(_need(lane), max(1, lane.info.weight)) for lane in sharing]
            levels.update(zip([lane.name for lane in sharing], share_out(part, needs), strict=True))
    return levels


def _need(lane: LaneBuffer) -> int:
    return lane.targets[WAITING] + lane.targets[CREDIT]
