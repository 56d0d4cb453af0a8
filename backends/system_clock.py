"""The machine's clocks."""

import time

_BOOT_TIME = getattr(time, "CLOCK_BOOTTIME", None)
"""Linux' boot-time clock: the time since the machine started, including sleep."""


class SystemClock:
    """Implements dispatcher.clock.Clock."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """Return boot time where the system has it: a lease also runs out while the machine sleeps."""
        return time.monotonic() if _BOOT_TIME is None else time.clock_gettime(_BOOT_TIME)
