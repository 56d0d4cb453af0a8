"""Quantiles of queue waits, from the counts that workers keep."""

from collections.abc import Iterable

from dispatcher.model.view import WAIT_BUCKETS_MS, WorkerBeat


def merged(workers: Iterable[WorkerBeat], tier: str) -> list[int]:
    """Return the number of envelopes by wait, one count per bucket, over all workers."""
    total = [0] * (len(WAIT_BUCKETS_MS) + 1)
    for worker in workers:
        stats = worker.tiers.get(tier)
        for index, count in enumerate(stats.wait_counts if stats else []):
            total[index] += count
    return total


def quantile_ms(counts: list[int], part: float) -> float | None:
    """Return the wait below which `part` (0 to 1) of the envelopes stay; None if there are none.

    The value is interpolated within its bucket. Waits longer than the last bucket are reported as its bound.
    """
    rank, seen = part * sum(counts), 0
    if not any(counts):
        return None
    for index, count in enumerate(counts[:-1]):
        if count and seen + count >= rank:
            low = WAIT_BUCKETS_MS[index - 1] if index else 0.0
            return low + (WAIT_BUCKETS_MS[index] - low) * (rank - seen) / count
        seen += count
    return WAIT_BUCKETS_MS[-1]
