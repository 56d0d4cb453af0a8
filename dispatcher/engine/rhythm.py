"""The pace of lease calls, how much they ask for, and rates over half a second."""

from dataclasses import dataclass
from typing import ClassVar

from dispatcher.engine.settings import EngineSettings


class Rhythm:
    """Decides when the next call may be made: every period_s, or at once within bounds. The bound is a bucket of calls,
    which fills faster when more targets are sent."""

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings
        self._asked_s = -1e9
        self._calls = float(settings.calls_burst)
        self._filled_s = 0.0
        self._calls_per_s = settings.calls_per_s

    def due_s(self, now_s: float, *, at_once: bool, targets_s: float = 0.0) -> float:
        """Return the earliest time of the next call for a worker that sends `targets_s` targets per second."""
        settings = self._settings
        steady_s = self._asked_s + settings.period_s
        if not at_once:
            return steady_s
        self._fill(now_s)
        self._calls_per_s = max(settings.calls_per_s, settings.calls_per_target * targets_s)
        wait_s = max(0.0, (1.0 - self._calls) / self._calls_per_s)
        return min(steady_s, max(self._asked_s + settings.spacing_s, now_s + wait_s if wait_s > 1e-9 else 0.0))

    def asked(self, now_s: float) -> None:
        self._fill(now_s)
        self._asked_s = now_s
        self._calls = max(0.0, self._calls - 1.0)

    def _fill(self, now_s: float) -> None:
        settings = self._settings
        more = (now_s - self._filled_s) * self._calls_per_s
        self._calls = min(float(settings.calls_burst), self._calls + more)
        self._filled_s = now_s


class Horizon:
    """How far ahead credit is asked for: what can be sent in horizon_s, and at least a floor that adapts."""

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings
        self._floor = settings.horizon_floor_targets
        self._given_back = 0

    def targets(self, recent: int) -> int:
        """Return the number of targets to ask for. recent: those that were sent in a RateWindow."""
        return max(self._floor, int(recent * self._settings.horizon_s / RateWindow.LENGTH_S))

    def adapt(self, given_back: int, credit_targets: int) -> None:
        """Halve the floor when credit expired unused; double it when all credit was spent. given_back: targets so far;
        credit_targets: those left."""
        if given_back > self._given_back:
            self._floor = max(1, self._floor // 2)
        elif credit_targets == 0:
            self._floor = min(self._settings.horizon_floor_targets, 2 * self._floor)
        self._given_back = given_back


@dataclass(slots=True, eq=False)
class RateWindow:
    """Counts per half second: the current window and the one before."""

    LENGTH_S: ClassVar = 0.5

    since_s: float = 0.0
    count: int = 0
    before: int = 0

    def add(self, count: int, now_s: float) -> None:
        if now_s - self.since_s >= self.LENGTH_S:
            self._turn(now_s)
        self.count += count

    def recent(self, now_s: float) -> int:
        """Return the larger of the two windows: the count of half a second."""
        if now_s - self.since_s >= self.LENGTH_S:
            self._turn(now_s)
        return self.count if self.count > self.before else self.before

    def _turn(self, now_s: float) -> None:
        self.before = self.count if now_s - self.since_s < 2 * self.LENGTH_S else 0
        self.count = 0
        self.since_s = now_s
