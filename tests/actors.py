"""Actors (`run(stop)`) in threads of their own, as in a worker."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

DEADLINE_S = 20.0


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
