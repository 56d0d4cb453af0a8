"""Two clocks, passed in: the wall clock for stored times, the monotonic clock for measured times."""

from collections import deque
from typing import Protocol


class Clock(Protocol):
    """Source of time. Implementations: the system's (outside this package) and a virtual one for tests."""

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch, UTC, for stored times."""
        ...

    def monotonic_s(self) -> float:
        """Return seconds of a clock that is never set, for measured times and use-by times. Where there is such a
        clock, it also runs while the machine sleeps."""
        ...


class ServiceClock:
    """The clocks of a process. The wall clock follows Redis' time, which is the reference for all processes. Until the
    first answer, and while Redis is down, it continues from the last known time. One thread calls `sync`, any may read.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.monotonic_s = clock.monotonic_s
        """See Clock.monotonic_s. A request asks for it four times, so without a call in between."""
        self._ahead_ms = clock.wall_ms() - clock.monotonic_s() * 1000
        """Lead of the wall clock over the monotonic one."""

    def wall_ms(self) -> int:
        return int(self._ahead_ms + self._clock.monotonic_s() * 1000)

    def sync(self, server_ms: int, asked_s: float) -> None:
        """Adjust the wall clock to the server's time in an answer that has just arrived.

        `asked_s` is the monotonic time of the request. The server read its clock some time in between, so a difference
        within that span is not corrected.
        """
        min_lead_ms, max_lead_ms = server_ms - self._clock.monotonic_s() * 1000, server_ms - asked_s * 1000
        self._ahead_ms = min(max(self._ahead_ms, min_lead_ms), max_lead_ms)


class ClockComparison:
    """Compares a server's clock with ours. If the server's clock gained on ours, ours stopped (a paused machine) or the
    server's was set forward."""

    def __init__(self, span_s: float) -> None:
        """`span_s`: how long an answer is used for comparison. (Over hours two clocks drift apart by themselves.)"""
        self._span_s = span_s
        self._ahead: deque[tuple[float, float]] = deque()
        """When we asked, and the server's maximum lead over our clock, the smallest lead first. (An entry is dropped
        when a later one has a smaller lead.)"""

    def gained_s(self, server_ms: int, asked_s: float, answered_s: float) -> float | None:
        """Return the server's minimum gain on our clock; None without an earlier answer.

        `server_ms` is when the server carried the call out. That was some time between `asked_s` (the first attempt, if
        the call was repeated) and `answered_s`.
        """
        ahead, server_s = self._ahead, server_ms / 1000
        while ahead and ahead[0][0] < asked_s - self._span_s:
            ahead.popleft()
        gained_s = server_s - answered_s - ahead[0][1] if ahead else None
        max_lead_s = server_s - asked_s
        while ahead and ahead[-1][1] >= max_lead_s:
            ahead.pop()
        ahead.append((asked_s, max_lead_s))
        return gained_s

    def begin_again(self) -> None:
        """Forget all answers but the last, once a gain was handled, so that it is not reported twice."""
        while len(self._ahead) > 1:
            self._ahead.popleft()
