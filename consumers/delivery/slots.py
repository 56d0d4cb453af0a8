"""The slots of a channel for concurrent calls, and the time limit of the calls in them."""

import asyncio
import math
from collections.abc import Callable

from consumers.delivery.pending import Call


class CallSlot:
    """A slot and its task, which makes one call after the other."""

    __slots__ = ("call", "quick", "task", "until_s")

    def __init__(self, call: Call) -> None:
        self.task: asyncio.Task[None] | None = None
        self.begin(call)

    def begin(self, call: Call) -> None:
        """Make the next call."""
        self.call = call
        self.quick = True
        """True while the call was not late and did not yield to the event loop."""
        self.until_s = math.inf
        """When the call ends, by the loop's clock."""

    @property
    def is_cancelled(self) -> bool:
        """Whether the task was cancelled, also if the channel's code went on. Then it makes no further call."""
        return self.task is not None and self.task.cancelling() > 0


class Slots:
    """The slots in use. One timer serves all, since all calls have the same time limit."""

    def __init__(
        self, timeout_s: float, loop: asyncio.AbstractEventLoop, timed_out: Callable[[CallSlot], None]
    ) -> None:
        self.in_use: set[CallSlot] = set()
        self._timeout_s = timeout_s
        self._loop = loop
        self._timed_out = timed_out
        self._timer: asyncio.TimerHandle | None = None

    def limit(self, slot: CallSlot) -> None:
        """Let the slot's call end after the time limit."""
        slot.until_s = self._loop.time() + self._timeout_s
        if self._timer is None:
            self._timer = self._loop.call_at(slot.until_s, self._look)

    def close(self) -> None:
        """End no more calls."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        """End the calls whose time is over, and look again when that of the next is."""
        now_s = self._loop.time()
        for slot in [slot for slot in self.in_use if slot.until_s <= now_s]:
            slot.until_s = math.inf
            self._timed_out(slot)
        next_s = min([slot.until_s for slot in self.in_use], default=math.inf)
        self._timer = self._loop.call_at(next_s, self._look) if next_s < math.inf else None
