"""Two clocks, passed in: the wall clock for what is stored, the monotonic clock for what is measured."""

from typing import Protocol


class Clock(Protocol):
    """Source of time. Implementations: the system's (outside this package) and a virtual one for tests."""

    def wall_ms(self) -> int:
        """Milliseconds since the epoch, UTC; for what is stored."""
        ...

    def monotonic_s(self) -> float:
        """Seconds of a clock that never steps; for what is measured and for use-by times."""
        ...


class VirtualClock:
    """A clock that moves only when told to."""

    def __init__(self, wall_ms: int = 1_700_000_000_000) -> None:
        self._wall_ms = float(wall_ms)
        self._monotonic_s = 0.0

    def wall_ms(self) -> int:
        return int(self._wall_ms)

    def monotonic_s(self) -> float:
        return self._monotonic_s

    def advance(self, seconds: float) -> None:
        """Moves both clocks forward."""
        self._wall_ms += seconds * 1000
        self._monotonic_s += seconds
