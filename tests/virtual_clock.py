"""A clock for tests."""


class VirtualClock:
    """A clock that moves only on `advance`."""

    def __init__(self, wall_ms: int = 1_700_000_000_000) -> None:
        self._wall_ms = float(wall_ms)
        self._monotonic_s = 0.0

    def wall_ms(self) -> int:
        return int(self._wall_ms)

    def monotonic_s(self) -> float:
        return self._monotonic_s

    def advance(self, seconds: float) -> None:
        """Move both clocks forward."""
        self._wall_ms += seconds * 1000
        self._monotonic_s += seconds
