"""Count values by size."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from math import inf, isfinite


class Histogram:
    """Counts by inclusive upper bounds; the last count is for larger values.

    Two threads that add at the same time may lose a count; a lock would cost more than it is worth.
    """

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float, count: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += count
        self.sum += value * count

    def cumulated(self) -> Iterator[tuple[float, float]]:
        """Yield each bound with the number of values up to it; at the end infinity."""
        total = 0.0
        for bound, count in zip((*self.bounds, inf), self.counts, strict=True):
            total += count
            yield bound, total


def quantile(buckets: Sequence[tuple[float, float]], share: float) -> float | None:
    """Return the value that this share of the values does not exceed, interpolated in its bucket.

    buckets: (upper bound, number of values up to it), in order. Return None without values, and the last finite bound
    if the value is above it.
    """
    rank = share * max((count for _, count in buckets), default=0.0)
    low, below = 0.0, 0.0
    for bound, count in buckets:
        if count > below and count >= rank:
            return low + (bound - low) * (rank - below) / (count - below) if isfinite(bound) else low
        low, below = bound, count
    return low if below else None
