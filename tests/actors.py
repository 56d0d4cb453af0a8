"""Actors (`run(stop)`) in threads of their own, as in a worker."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.virtual_clock import VirtualClock

DEADLINE_S = 20.0


class Waits(threading.Event):
    """A stop signal whose waits pass at once, on a virtual clock. It is set after some of them. each: called with the
    number of each wait, when it is over."""

    def __init__(self, clock: VirtualClock, count: int, each: Callable[[int], object] = lambda _: None) -> None:
        super().__init__()
        self.waited_s: list[float] = []
        self._clock, self._count, self._each = clock, count, each

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self._clock.advance(timeout)
        self.waited_s.append(round(timeout, 3))
        self._each(len(self.waited_s))
        if len(self.waited_s) == self._count:
            self.set()
        return self.is_set()


@contextmanager
def running(run: Callable[[threading.Event], None]) -> Iterator[None]:
    """Runs an actor while the block runs; it must end when told to."""
    stop = threading.Event()
    thread = threading.Thread(target=run, args=(stop,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(DEADLINE_S)
        assert not thread.is_alive()
