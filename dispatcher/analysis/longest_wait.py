"""How long an envelope at the head of its lane can wait while everything else has something to send: law 3 in seconds.

Law 3 (no starvation): between two sends of a backlogged tier of weight w of W the others send at most (W - w) / w times
the targets of its last envelope, plus one largest envelope each. Within the tier lanes share by weight, so before an
envelope of a lane that has one part in n of its tier's weight, the tier makes at most n sends, the last its own. With c
targets in the tier's largest envelope, and C in that of each other tier that has a backlog, these are at most

    n * (c * W / w + sum of C)

targets; the capacity sends them, and what was granted before (one window, a quarter of a second) comes first.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dispatcher.model.service_settings import SHARED_BY
from dispatcher.model.task import UNKNOWN_SIZE_CHUNK
from dispatcher.model.tier import MILLI

WINDOW_S = 0.25
"""Of the ledger."""


class Lane(NamedTuple):
    """A lane with something to send. weight: of its tasks together, in thousandths; chunk: targets an envelope."""

    tier: str
    app: str
    weight: int
    chunk: int


class LongestWait(NamedTuple):
    """seconds: None where the capacity is unlimited or not known. sends: of the tier, until it is the lane's turn;
    chunk: targets of its largest envelope (of an idle tier: that of one lane of a task of unknown size)."""

    seconds: float | None
    sends: int
    chunk: int


def longest_waits(
    capacity: int,
    tier_weights: Mapping[str, int],
    lanes: Sequence[Lane],
    sharing: str = SHARED_BY[0],
    app_weights: Mapping[str, int] | None = None,
) -> dict[str, LongestWait]:
    """By tier, for the lane that has the smallest part of it. capacity in targets/s; weights in thousandths."""
    largest = {tier: max((lane.chunk for lane in lanes if lane.tier == tier), default=0) for tier in tier_weights}
    found = {}
    for tier, weight in tier_weights.items():
        mine = [lane for lane in lanes if lane.tier == tier]
        sends = _sends(mine, app_weights or {} if sharing == "apps" else None)
        chunk = largest[tier] or UNKNOWN_SIZE_CHUNK
        others = [name for name in tier_weights if name != tier and largest[name]]
        whole = weight + sum(tier_weights[name] for name in others)
        targets = sends * (chunk * whole / weight + sum(largest[name] for name in others))
        found[tier] = LongestWait(WINDOW_S + targets / capacity if capacity else None, sends, chunk)
    return found


def _sends(lanes: Sequence[Lane], app_weights: Mapping[str, int] | None) -> int:
    """How often a tier sends until the lane with the smallest part has had its turn. app_weights: where apps share."""
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
