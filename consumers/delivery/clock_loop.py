"""An event loop with a given clock."""

import asyncio

from dispatcher.clock import Clock


class ClockLoop(asyncio.SelectorEventLoop):
    """An event loop whose timers follow `clock`, so that a call's timeout passes while the machine sleeps.

    While it waits in its selector, the loop notices a step of that clock only when something wakes it.
    """

    def __init__(self, clock: Clock) -> None:
        self.time = clock.monotonic_s  # type: ignore[method-assign]  # read on each call: no method in between
        super().__init__()
