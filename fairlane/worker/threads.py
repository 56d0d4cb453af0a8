"""The worker's threads. One that dies stops the worker: a worker that only half works is worse than none."""

import logging
import threading
import time
from collections.abc import Callable

_log = logging.getLogger(__name__)

Run = Callable[[threading.Event], None]


class Threads:
    """Starts actors (`run(stop)`) in threads of their own. `over` is set when one of them fails."""

    def __init__(self, over: threading.Event) -> None:
        self.stop = threading.Event()
        self.failure: BaseException | None = None
        self._over = over
        self._threads: list[threading.Thread] = []

    def start(self, name: str, run: Run) -> None:
        thread = threading.Thread(target=self._guarded, args=(name, run), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def join(self, deadline_s: float) -> list[str]:
        """Tells all to stop and waits; the names of those that did not."""
        self.stop.set()
        until_s = time.monotonic() + deadline_s
        for thread in self._threads:
            thread.join(max(0.0, until_s - time.monotonic()))
        return [thread.name for thread in self._threads if thread.is_alive()]

    def _guarded(self, name: str, run: Run) -> None:
        try:
            run(self.stop)
        except BaseException as error:
            _log.exception("thread %s failed; the worker stops", name)
            self.failure = self.failure or error
            self._over.set()
