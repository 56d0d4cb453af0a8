"""Durations of calls to Redis, by script. They are recorded on the calling thread, so recording has to be cheap."""

from bisect import bisect_left


class Durations:
    """Counts by bucket, and the sum of the durations."""

    BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(self.BUCKETS_S) + 1)
        self.sum_s = 0.0


class CallTimes:
    """An `observe` hook.

    Two threads that record at the same time may lose a count; a lock would cost more than it is worth.
    """

    def __init__(self) -> None:
        self.calls: dict[str, Durations] = {}

    def note(self, name: str, seconds: float) -> None:
        durations = self.calls.get(name)
        if durations is None:
            durations = self.calls.setdefault(name, Durations())
        durations.counts[bisect_left(Durations.BUCKETS_S, seconds)] += 1
        durations.sum_s += seconds
