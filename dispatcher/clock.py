"""Two clocks, passed in: the wall clock for what is stored, the monotonic clock for what is measured."""

from typing import Protocol


class Clock(Protocol):
    """Source of time. Implementations: the system's (outside this package) and a virtual one for tests."""

    def wall_ms(self) -> int:
        """Milliseconds since the epoch, UTC; for what is stored."""
        ...

    def monotonic_s(self) -> float:
        """Seconds of a clock that nobody sets and that goes on while the machine sleeps, where there is such a one; for
        what is measured and for use-by times."""
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


class ServiceClock:
    """A process' clocks, whose wall clock follows the one server that all of them ask: Redis' time rules. Until it was
    first heard, and while it is gone, time goes on from what was known. One thread hears, any may read."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead_ms = clock.wall_ms() - clock.monotonic_s() * 1000
        """Of the wall clock over the monotonic one."""

    def wall_ms(self) -> int:
        return int(self._ahead_ms + self._clock.monotonic_s() * 1000)

    def monotonic_s(self) -> float:
        return self._clock.monotonic_s()

    def hear(self, server_ms: int, asked_s: float) -> None:
        """The server's time in an answer that has just come. asked_s: when it was asked for, on the monotonic clock. It
        was told some time in between, so within that nothing is put right."""
        least_ms, most_ms = server_ms - self._clock.monotonic_s() * 1000, server_ms - asked_s * 1000
        self._ahead_ms = min(max(self._ahead_ms, least_ms), most_ms)
