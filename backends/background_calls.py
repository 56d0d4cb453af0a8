"""Calls that are made again and again in the background."""

import logging
import threading
import time
from collections.abc import Callable

from dispatcher.model.errors import FairlaneError

Call = Callable[[], object]
_log = logging.getLogger(__name__)


class BackgroundCalls:
    """One thread makes all calls in turn. It ends when there are none, so it rarely starts for a short use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: set[Call] = set()
        self._running = False

    def add(self, call: Call, every_s: float) -> None:
        """Make the call from now on, at this pace or at that of the thread already running. It goes on after errors."""
        with self._lock:
            self._calls.add(call)
            if not self._running:
                threading.Thread(target=self._run, args=(every_s,), name="background-calls", daemon=True).start()
                self._running = True

    def remove(self, call: Call) -> None:
        """Make the call no longer; one under way still completes."""
        with self._lock:
            self._calls.discard(call)

    def _run(self, every_s: float) -> None:
        while calls := self._due(every_s):
            for call in calls:
                try:
                    call()
                except FairlaneError as error:
                    _log.debug("a call in the background failed: %s", error)
                except Exception:  # a fault of one call must not end the others
                    _log.exception("A call in the background failed")

    def _due(self, every_s: float) -> list[Call]:
        time.sleep(every_s)
        with self._lock:
            self._running = bool(self._calls)
            return list(self._calls)
