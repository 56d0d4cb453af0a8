"""How long an envelope at the head of its lane can wait if everything else has something to send: law 3 in seconds.

Law 3 (no starvation): between two sends of a backlogged tier of weight w of W, the others send at most (W - w) / w
times the targets of its last envelope, plus one largest envelope each. Within the tier, lanes share by weight. So
before an envelope of a lane with one part in n of its tier's weight, the tier makes at most n sends, the last being
that envelope. With c targets in the tier's largest envelope, and C in that of each other tier with a backlog, these are
at most

    n * (c * W / w + sum of C)

targets. The capacity sends them, and earlier grants (one window, a quarter of a second) come first.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dispatcher.model.pools import WINDOW_S
from dispatcher.model.task import UNKNOWN_SIZE_CHUNK
from dispatcher.model.tier import MILLI, SHARED_BY


class Lane(NamedTuple):
    """A lane with something to send."""

    tier: str
    app: str
    weight: int
    """Total weight of its tasks, in thousandths."""
    chunk: int
    """Targets per envelope."""


class LongestWait(NamedTuple):
    """The longest wait in one tier."""

    seconds: float | None
    """None if the capacity is unlimited or unknown."""
    sends: int
    """Sends of the tier until the lane's turn."""
    chunk: int
    """Targets of the tier's largest envelope (for an idle tier: that of one lane of a task of unknown size)."""


def longest_waits(
    capacity: int,
    tier_weights: Mapping[str, int],
    lanes: Sequence[Lane],
    sharing: str = SHARED_BY[0],
    app_weights: Mapping[str, int] | None = None,
) -> dict[str, LongestWait]:
    """Return the longest wait by tier, for the lane with the smallest part of the tier. `capacity` in targets/s;
    weights in thousandths."""
    largest = {tier: max((lane.chunk for lane in lanes if lane.tier == tier), default=0) for tier in tier_weights}
    waits = {}
    for tier, weight in tier_weights.items():
        own = [lane for lane in lanes if lane.tier == tier]
        sends = _sends(own, app_weights or {} if sharing == "apps" else None)
        chunk = largest[tier] or UNKNOWN_SIZE_CHUNK
        others = [name for name in tier_weights if name != tier and largest[name]]
        total_weight = weight + sum(tier_weights[name] for name in others)
        targets = sends * (chunk * total_weight / weight + sum(largest[name] for name in others))
        waits[tier] = LongestWait(WINDOW_S + targets / capacity if capacity else None, sends, chunk)
    return waits


def _sends(lanes: Sequence[Lane], app_weights: Mapping[str, int] | None) -> int:
    """Return how often a tier sends until the lane with the smallest part has had its turn. `app_weights`: only if apps
    share."""
    if not lanes:
        return 1
    if app_weights is None:
        return math.ceil(sum(lane.weight for lane in lanes) / min(lane.weight for lane in lanes))
    apps = {lane.app for lane in lanes}
    weights = {app: app_weights.get(app, MILLI) for app in apps}
    of_tier = sum(weights.values())
    return max(
        math.ceil(of_tier / weights[app] * _sends([lane for lane in lanes if lane.app == app], None)) for app in apps
    )
