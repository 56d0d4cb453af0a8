"""A request to stop that signal handlers can make: they only write an attribute.

Python runs a handler between any two steps of the main thread, also inside another handler. `threading.Event.set` takes
a lock there that the same thread may hold, and then waits for itself: it served on, deaf to all further signals.
"""

import atexit
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from fairlane.cli.base.exit_codes import INTERRUPTED

SLICE_S = 0.2
"""The longest a wait goes on after a request."""
COPIES_S = 0.5
"""A SIGINT within this time of the first signal is a copy of it: a terminal signals the whole process group, and a
parent passes on what it got."""
STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""SIGHUP comes when a terminal closes. Its default, like that of USERS, is death without a record of what was sent."""
USERS = (signal.SIGUSR1, signal.SIGUSR2)
"""Signals without a meaning here."""
Handler = Callable[[int, FrameType | None], None]


class StopSignal(threading.Event):
    """An event without a lock. A wait looks at it every SLICE_S."""

    def __init__(self) -> None:
        super().__init__()
        self._since_s: float | None = None

    def is_set(self) -> bool:
        return self._since_s is not None

    def set(self) -> None:
        if self._since_s is None:
            self._since_s = time.monotonic()

    def wait(self, timeout: float | None = None) -> bool:
        until_s = None if timeout is None else time.monotonic() + timeout
        while not self.is_set():
            left_s = SLICE_S if until_s is None else until_s - time.monotonic()
            if left_s <= 0:
                break
            time.sleep(min(SLICE_S, left_s))
        return self.is_set()

    def receive(self, number: int, _frame: FrameType | None) -> None:
        """Handle a signal. A second SIGINT ends the process at once; claims then end by timeout."""
        since_s = self._since_s
        if number == signal.SIGINT and since_s is not None and time.monotonic() - since_s > COPIES_S:
            os._exit(INTERRUPTED)
        self.set()


def stop_on_signals() -> StopSignal:
    """Return an event that SIGTERM, SIGINT and SIGHUP set. SIGUSR1 and SIGUSR2 have no effect."""
    stop = StopSignal()
    _handle(stop.receive)
    for number in USERS:
        signal.signal(number, lambda *_: None)  # SIG_IGN would pass on to child processes
    atexit.register(_ignore)  # the interpreter's end would restore the defaults: death by a late copy
    return stop


@contextmanager
def interrupted_by(*numbers: signal.Signals) -> Iterator[None]:
    """End the block as Ctrl-C does on these signals. Copies of a signal do not interrupt what then tidies up."""
    raised_s = -math.inf

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        nonlocal raised_s
        if time.monotonic() - raised_s > COPIES_S:
            raised_s = time.monotonic()
            raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is interrupt:
                signal.signal(number, handler)


def _handle(handler: Handler) -> None:
    for number in STOPS:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, handler)


def _ignore() -> None:
    for number in (*STOPS, *USERS):
        signal.signal(number, signal.SIG_IGN)
