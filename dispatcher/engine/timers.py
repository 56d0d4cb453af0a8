"""Delayed calls. The owner of the timers runs them by its monotonic clock."""

from collections.abc import Callable
from heapq import heappop, heappush


class Timers:
    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0

    def at(self, when_s: float, call: Callable[[], None]) -> None:
        self._number += 1
        heappush(self._heap, (when_s, self._number, call))

    def run(self, now_s: float) -> None:
        """Make the calls that are due."""
        while self._heap and self._heap[0][0] <= now_s:
            heappop(self._heap)[2]()

    @property
    def next_s(self) -> float | None:
        return self._heap[0][0] if self._heap else None
