"""The machine's clocks."""

import time

_BOOT_TIME = getattr(time, "CLOCK_BOOTTIME", None)
"""Linux has it: the time since the start of the machine, with the time in which it slept."""


class SystemClock:
    """Implements dispatcher.clock.Clock."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """Go on while the machine sleeps, where the system has such a clock: a lease runs out in that time too."""
        return time.monotonic() if _BOOT_TIME is None else time.clock_gettime(_BOOT_TIME)
