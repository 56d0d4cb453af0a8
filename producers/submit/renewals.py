"""Renew the leases of a process's submissions in the background."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from dispatcher.model.errors import FairlaneError

Renew = Callable[[], object]


class Renewals:
    """One thread renews all leases and ends when there are none, so a small submission rarely starts one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._leases: set[Renew] = set()
        self._running = False

    def add(self, renew: Renew, every_s: float) -> None:
        """Call `renew` from now on, at this pace or at that of the thread already running."""
        with self._lock:
            self._leases.add(renew)
            if not self._running:
                threading.Thread(target=self._run, args=(every_s,), name="submit-leases", daemon=True).start()
                self._running = True

    def remove(self, renew: Renew) -> None:
        """Stop calling `renew`; a call in progress still completes."""
        with self._lock:
            self._leases.discard(renew)

    def _run(self, every_s: float) -> None:
        while leases := self._due(every_s):
            for renew in leases:
                with suppress(FairlaneError):  # the submission gets this error itself when it checks its lease
                    renew()

    def _due(self, every_s: float) -> list[Renew]:
        time.sleep(every_s)
        with self._lock:
            self._running = bool(self._leases)
            return list(self._leases)
