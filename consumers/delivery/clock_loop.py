"""An event loop with a given clock."""

import asyncio

from dispatcher.clock import Clock


class ClockLoop(asyncio.SelectorEventLoop):
    """Its timers are due by `clock`, so that a call's timeout passes while the machine sleeps. Asleep in its selector,
    the loop notices a step of that clock when something wakes it."""

    def __init__(self, clock: Clock) -> None:
        self.time = clock.monotonic_s  # type: ignore[method-assign]  # asked for each call: no method in between
        super().__init__()
