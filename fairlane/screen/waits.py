"""Quantiles of queue waits, from the counts that workers keep."""

from collections.abc import Iterable
from itertools import accumulate
from math import inf

from dispatcher.analysis.histogram import quantile
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
    """Return the wait below which `part` (0 to 1) of the envelopes stay; None if there are none."""
    return quantile(list(zip((*WAIT_BUCKETS_MS, inf), accumulate(counts), strict=True)), part)
