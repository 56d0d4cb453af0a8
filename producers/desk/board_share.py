"""A bounded part of Redis' time."""

import threading

from dispatcher.clock import Clock

PART = 0.05
"""The largest part of Redis' time that the board takes."""
_SAVED_S = 1.0
"""Time whose part may be taken at once, if nothing was taken in it."""


class Share:
    """Says when the next call may be made. May be called by any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._free_at_s = float("-inf")

    def wait_s(self) -> float:
        """Return the seconds until the next call may be made."""
        return max(0.0, self._free_at_s - self._clock.monotonic_s())

    def charge(self, _script: str, took_s: float) -> None:
        """Count a script that was called."""
        with self._lock:
            self._free_at_s = max(self._free_at_s, self._clock.monotonic_s() - _SAVED_S) + took_s / PART
