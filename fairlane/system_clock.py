"""The machine's clocks."""

import time


class SystemClock:
    """Implements dispatcher.clock.Clock."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()
