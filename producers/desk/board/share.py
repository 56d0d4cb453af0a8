"""A bounded part of Redis' time."""

import threading
from collections import defaultdict, deque

from dispatcher.clock import Clock

PART = 0.05
"""The largest part of Redis' time that the board takes."""
_SAVED_S = 1.0
"""Time whose part may be taken at once, if nothing was taken in it."""
_WAIT_S = 0.25
"""The longest wait for a call, so that changes are read however many pages are asked for."""
_CALLS = 50
"""The quickest of these calls says what a task costs; the others waited for this process or for other clients."""


class Share:
    """Says when the next call may be made. May be called by any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._mine = threading.local()
        self._costs_s: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_CALLS))
        self._free_at_s = float("-inf")

    def wait_s(self) -> float:
        """Return the seconds until the next call may be made."""
        return max(0.0, self._free_at_s - self._clock.monotonic_s())

    def note(self, _script: str, took_s: float) -> None:
        """Note how long a script took, until this thread says how many tasks it read."""
        self._mine.took_s = getattr(self._mine, "took_s", 0.0) + took_s

    def charge(self, shape: str, tasks: int) -> float:
        """Count the calls of this thread, which read this number of tasks in a shape. Return what they cost, in
        seconds."""
        cost_s = getattr(self._mine, "took_s", 0.0) / max(1, tasks)
        self._mine.took_s = 0.0
        with self._lock:
            self._costs_s[shape].append(cost_s)
            spent_s = max(1, tasks) * min(self._costs_s[shape])
            now_s = self._clock.monotonic_s()
            free_at_s = max(self._free_at_s, now_s - _SAVED_S) + spent_s / PART
            self._free_at_s = min(free_at_s, now_s + _WAIT_S)
        return spent_s
