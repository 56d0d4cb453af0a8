"""Let the requests of paced flows leave one after the other. It lives in the channels' event loop."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from dispatcher.clock import Clock

PATIENCE_S = 1.0
"""How long requests wait beyond what is granted, such as those that a stall has left behind."""
LONGEST_WAIT_S = 0.05
SHORTEST_WAIT_S = 0.0005
"""Bounds of the time between two looks at the door."""


class _Waiting(NamedTuple):
    """A request that waits at the door."""

    future: "asyncio.Future[bool]"
    since_s: float
    until_s: float


class WaitingRequests:
    """The requests of one flow that wait, first come, first served. One timer serves all of them."""

    def __init__(self, wait_s: Callable[[float], float], left: Callable[[float], float], clock: Clock) -> None:
        """`wait_s`: called with the monotonic time; returns how long the next request must wait, 0 if it leaves now.
        `left`: called with that time; returns how many may leave under the grants so far."""
        self._wait_s = wait_s
        self._left = left
        self._clock = clock
        self._queue: deque[_Waiting] = deque()
        self._timer: asyncio.TimerHandle | None = None

    async def enter(self, until_s: float) -> bool:
        """Wait until the request may leave, at most until a monotonic time. Return whether it may."""
        now_s = self._clock.monotonic_s()
        if not self._queue and self._wait_s(now_s) <= 0.0:
            return True
        loop = asyncio.get_running_loop()
        waiting = _Waiting(loop.create_future(), now_s, until_s)
        self._queue.append(waiting)
        if self._timer is None:
            self._timer = loop.call_later(SHORTEST_WAIT_S, self._serve, loop)
        return await waiting.future

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let requests leave, and send away those that have waited too long."""
        self._timer = None
        queue, now_s = self._queue, self._clock.monotonic_s()
        while queue:
            first = queue[0]
            if first.future.done():  # its call was cancelled
                queue.popleft()
            elif now_s >= first.until_s or self._is_left_behind(first, now_s):
                queue.popleft().future.set_result(False)
            elif (wait_s := self._wait_s(now_s)) <= 0.0:
                queue.popleft().future.set_result(True)
            else:
                bounded_s = min(max(wait_s, SHORTEST_WAIT_S), LONGEST_WAIT_S)
                self._timer = loop.call_later(bounded_s, self._serve, loop)
                return

    def _is_left_behind(self, first: _Waiting, now_s: float) -> bool:
        """Return whether the first has waited long, and less is granted than waits."""
        return now_s >= first.since_s + PATIENCE_S and len(self._queue) > self._left(now_s) + 0.5
