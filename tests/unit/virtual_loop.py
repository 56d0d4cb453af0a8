"""An asyncio event loop in virtual time, which runs when it is asked to and never waits."""

import asyncio
import heapq
from collections.abc import Callable
from contextvars import Context
from math import inf
from typing import Any, TypeVarTuple, Unpack

from tests.virtual_clock import VirtualClock

Args = TypeVarTuple("Args")


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its time is that of the clock. What a thread would do is done at once, in the loop."""

    def __init__(self, clock: VirtualClock) -> None:
        self.time = clock.monotonic_s  # type: ignore[method-assign]  # as in ClockLoop
        self._timers: list[float] = []
        self._has_calls = False
        super().__init__()

    def call_soon(
        self, callback: Callable[[Unpack[Args]], object], *args: *Args, context: Context | None = None
    ) -> asyncio.Handle:
        self._has_calls = True
        return super().call_soon(callback, *args, context=context)

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Args]], object], *args: *Args, context: Context | None = None
    ) -> asyncio.Handle:
        self._has_calls = True
        return super().call_soon_threadsafe(callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[Args]], object], *args: *Args, context: Context | None = None
    ) -> asyncio.TimerHandle:
        heapq.heappush(self._timers, when)
        return super().call_at(when, callback, *args, context=context)

    def run_in_executor(self, _: object, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def run_due(self) -> None:
        """Run what can run at this time."""
        while self._has_calls or self.wait_s <= 0:
            self._has_calls = False
            while self.wait_s <= 0:
                heapq.heappop(self._timers)
            super().call_soon(self.stop)
            self.run_forever()

    @property
    def wait_s(self) -> float:
        """Seconds until the next timer; inf without one."""
        return self._timers[0] - self.time() if self._timers else inf
