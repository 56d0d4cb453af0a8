"""Compute how much credit each lane of a worker should have."""

from collections.abc import Mapping, Sequence

from dispatcher.engine.buffers import CREDIT, WAITING, LaneBuffer
from dispatcher.model.tier import TIERS, Tier
from dispatcher.scheduling.sharing import share_out


def credit_levels(lanes: Sequence[LaneBuffer], horizon: int, weights: Mapping[Tier, int]) -> dict[str, int]:
    """Divide `horizon` targets by the weights of tiers and lanes. Return each lane's part by name.

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
        sharing = by_tier[tier]
        parts = share_out(share, [(_need(lane), max(1, lane.info.weight)) for lane in sharing])
        levels.update((lane.name, part) for lane, part in zip(sharing, parts, strict=True))
    return levels


def _need(lane: LaneBuffer) -> int:
    return lane.targets[WAITING] + lane.targets[CREDIT]
