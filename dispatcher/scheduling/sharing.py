"""Divide a quantity by weight."""

from collections.abc import Sequence


def share_out(total: int, needs: Sequence[tuple[int, int]]) -> list[int]:
    """Divide `total` between (need, weight) pairs. Nobody gets more than its need; the rest goes to the others by
    weight (max-min fairness). Rounded up, so that nobody with a need and a weight gets nothing."""
    if len(needs) == 1:
        return [min(needs[0][0], total)]
    shares = [0] * len(needs)
    left = total
    weights = sum(weight for _, weight in needs)
    for i in sorted(range(len(needs)), key=lambda i: needs[i][0] / needs[i][1]):
        need, weight = needs[i]
        fair = -(-left * weight // weights)
        shares[i] = min(need, fair)
        left = max(0, left - shares[i])
        weights -= weight
    return shares
