"""Durations of calls to Redis, by script. They are recorded on the calling thread, so recording has to be cheap."""

from dispatcher.analysis.histogram import Histogram

_BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


class CallTimes:
    """An `observe` hook."""

    def __init__(self) -> None:
        self.calls: dict[str, Histogram] = {}
        """Durations in seconds."""

    def note(self, name: str, seconds: float) -> None:
        durations = self.calls.get(name)
        if durations is None:
            durations = self.calls.setdefault(name, Histogram(_BUCKETS_S))
        durations.add(seconds)
