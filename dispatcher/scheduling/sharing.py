"""Divide a quantity by weight."""

from collections.abc import Sequence
from enum import IntEnum


class Work(IntEnum):
    """The kind of work in a lane. It decides the lane's part in its tier."""

    FRESH = 0
    """First attempts, in lanes of tasks."""
    RETRIES = 1
    """Attempts after the first, in retry lanes."""


WORK_WEIGHTS = {Work.FRESH: 9, Work.RETRIES: 1}
"""While a tier has both, its retry lanes together get a tenth of what it gets: a provider that asks for retries of
everything must not slow down the tasks of other providers."""


def share_out(total: int, needs: Sequence[tuple[int, int]]) -> list[int]:
    """Divide `total` between (need, weight) pairs by weight, with max-min fairness: no share exceeds its need, and the
    rest goes to the others. Shares are rounded up, so that each pair with a need and a weight gets something."""
    if len(needs) == 1:
        return [min(needs[0][0], total)]
    shares = [0] * len(needs)
    remaining = total
    weights = sum(weight for _, weight in needs)
    for i in sorted(range(len(needs)), key=lambda i: needs[i][0] / needs[i][1]):
        need, weight = needs[i]
        fair = -(-remaining * weight // weights)
        shares[i] = min(need, fair)
        remaining = max(0, remaining - shares[i])
        weights -= weight
    return shares
