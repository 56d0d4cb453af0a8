"""Virtual time: calls run in order. Nothing waits and nothing depends on the machine."""

from collections.abc import Callable
from heapq import heappop, heappush

Call = Callable[[], None]
START_MS = 1_700_000_000_000


class Agenda:
    """Calls by the microsecond; calls at the same moment run in the order they were added."""

    def __init__(self) -> None:
        self.now_us = 0
        self.events = 0
        self._heap: list[tuple[int, int, Call]] = []
        self._order = 0
        self._stopped = False

    @property
    def now_s(self) -> float:
        return self.now_us / 1e6

    def at(self, when_us: int, call: Call) -> None:
        """Schedule a call; a time in the past counts as now."""
        self._order += 1
        heappush(self._heap, (when_us if when_us > self.now_us else self.now_us, self._order, call))

    def after(self, delay_s: float, call: Call) -> None:
        self._order += 1
        delay_us = int(delay_s * 1e6)
        heappush(self._heap, (self.now_us + delay_us if delay_us > 0 else self.now_us, self._order, call))

    def stop(self) -> None:
        """End `run` after the current call."""
        self._stopped = True

    def run(self, until_us: int) -> None:
        """Let time pass until the given moment, or until `stop`."""
        heap = self._heap
        while heap and heap[0][0] <= until_us and not self._stopped:
            self.now_us, _, call = heappop(heap)
            self.events += 1
            call()
        if not self._stopped:
            self.now_us = max(self.now_us, until_us)


class SimClock:
    """Implements dispatcher.clock.Clock over an agenda. A worker's clock may be wrong."""

    def __init__(self, agenda: Agenda, wall_off_s: float = 0.0, monotonic_off_s: float = 0.0) -> None:
        self._agenda = agenda
        self._start_ms = START_MS + int(wall_off_s * 1000)
        self._off_s = monotonic_off_s

    def wall_ms(self) -> int:
        return self._start_ms + self._agenda.now_us // 1000

    def monotonic_s(self) -> float:
        return self._off_s + self._agenda.now_us / 1e6
