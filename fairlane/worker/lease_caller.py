"""The thread that asks the ledger, so that the engine never waits for Redis."""

import queue
import threading
from collections.abc import Callable

from dispatcher.clock import Clock
from dispatcher.lease import LeaseAnswer, LeaseRequest
from dispatcher.ports import Ledger

Answered = Callable[[LeaseAnswer | None, Exception | None], None]


class CallTimes:
    """Count and sum of call durations, by bucket, for the metrics."""

    BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)

    def __init__(self) -> None:
        self.counts = [0] * (len(self.BUCKETS_S) + 1)
        self.sum_s = 0.0
        self.errors = 0

    def note(self, seconds: float) -> None:
        index = next((i for i, bound in enumerate(self.BUCKETS_S) if seconds <= bound), len(self.BUCKETS_S))
        self.counts[index] += 1
        self.sum_s += seconds


class LeaseThread:
    """Makes one lease call at a time. It never repeats a call: that is the engine's to decide."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._requests: queue.SimpleQueue[tuple[LeaseRequest, Answered]] = queue.SimpleQueue()
        self.times = CallTimes()

    def ask(self, request: LeaseRequest, answered: Answered) -> None:
        """Returns at once; `answered` is called from this thread."""
        self._requests.put((request, answered))

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                request, answered = self._requests.get(timeout=0.25)
            except queue.Empty:
                continue
            self._call(request, answered)

    def _call(self, request: LeaseRequest, answered: Answered) -> None:
        asked_s = self._clock.monotonic_s()
        try:
            answer = self._ledger.lease(request)
        except Exception as error:
            self.times.errors += 1
            answered(None, error)
            return
        self.times.note(self._clock.monotonic_s() - asked_s)
        answered(answer, None)
