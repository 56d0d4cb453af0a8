"""The worker's threads. One that dies stops the worker: a worker that only half works is worse than none."""

import logging
import threading
import time
from collections.abc import Callable, Mapping

_log = logging.getLogger(__name__)

Run = Callable[[threading.Event], None]


class Stop(threading.Event):
    """One thread's stop signal.

    It counts how often the thread checks it, so that others can see that the thread makes progress.
    """

    def __init__(self) -> None:
        super().__init__()
        self.checks = 0
        self.resting = False
        """Whether the thread waits for this signal alone."""

    def is_set(self) -> bool:
        self.checks += 1
        return super().is_set()

    def wait(self, timeout: float | None = None) -> bool:
        self.resting = True
        try:
            return super().wait(timeout)
        finally:
            self.resting = False
            self.checks += 1


class Threads:
    """Start actors (`run(stop)`) in threads of their own. `over` is set when one of them fails."""

    def __init__(self, over: threading.Event) -> None:
        self.failure: BaseException | None = None
        self._over = over
        self._threads: list[threading.Thread] = []
        self._running: dict[str, Stop] = {}

    def start(self, name: str, run: Run) -> None:
        stop = Stop()
        thread = threading.Thread(target=self._guarded, args=(name, run, stop), name=name, daemon=True)
        self._threads.append(thread)
        self._running[name] = stop
        thread.start()

    def checks(self) -> Mapping[str, int | None]:
        """Return by thread name how often it has checked its stop signal; None while it rests."""
        return {name: None if stop.resting else stop.checks for name, stop in self._running.copy().items()}

    def fail(self, error: BaseException) -> None:
        """Stop the worker. The first failure is kept."""
        self.failure = self.failure or error
        self._over.set()

    def join(self, deadline_s: float) -> list[str]:
        """Stop all threads and wait; return the names of those that did not end."""
        for stop in self._running.copy().values():
            stop.set()
        until_s = time.monotonic() + deadline_s
        for thread in self._threads:
            thread.join(max(0.0, until_s - time.monotonic()))
        return [thread.name for thread in self._threads if thread.is_alive()]

    def _guarded(self, name: str, run: Run, stop: Stop) -> None:
        try:
            run(stop)
        except BaseException as error:
            self.fail(error)  # first: a blocked log must not keep the worker running
            _log.exception("thread %s failed; the worker stops", name)
        finally:
            del self._running[name]
