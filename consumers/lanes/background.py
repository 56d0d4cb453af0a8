"""A thread that runs small actions later, so that others need not wait for them."""

import heapq
import itertools
import logging
import queue
import threading
import time
from collections.abc import Callable

Action = Callable[[], None]

_log = logging.getLogger(__name__)


class Background:
    """Runs actions one after the other in one thread, each when it is due. An action must be quick and may raise."""

    def __init__(self, name: str) -> None:
        self._new: queue.Queue[tuple[float, Action] | None] = queue.Queue()
        self._due: list[tuple[float, int, Action]] = []
        self._numbers = itertools.count()
        self.under_way: Action | None = None
        """The action in progress, if any."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def do(self, action: Action, after_s: float = 0.0) -> None:
        """Run `action` after `after_s` seconds. Never blocks; callable from any thread."""
        self._new.put((time.monotonic() + after_s, action))

    def stop(self, deadline_s: float) -> bool:
        """Drop the actions not yet run. Return False if the thread was still busy at the deadline."""
        self._new.put(None)
        self._thread.join(deadline_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while self._take():
            while self._due and self._due[0][0] <= time.monotonic():
                self._do(heapq.heappop(self._due)[2])

    def _take(self) -> bool:
        """Wait for a new action or for the next one to be due; return False at the end."""
        wait_s = max(0.0, self._due[0][0] - time.monotonic()) if self._due else None
        try:
            entry = self._new.get(timeout=wait_s)
        except queue.Empty:
            return True
        if entry is None:
            return False
        heapq.heappush(self._due, (entry[0], next(self._numbers), entry[1]))
        return True

    def _do(self, action: Action) -> None:
        self.under_way = action
        try:
            action()
        except Exception:
            _log.exception("A background action failed")
        finally:
            self.under_way = None
