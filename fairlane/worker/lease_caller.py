"""The thread that calls the ledger, so that the engine never waits for Redis."""

import queue
import threading
from collections.abc import Callable

from dispatcher.ports import Ledger
from dispatcher.wire.lease import LeaseAnswer, LeaseRequest

Answered = Callable[[LeaseAnswer | None, Exception | None], None]


class LeaseThread:
    """Implements LeaseCaller. It makes one call at a time and never repeats one: the engine decides on that."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._requests: queue.Queue[tuple[LeaseRequest, Answered] | None] = queue.Queue()

    def ask(self, request: LeaseRequest, answered: Answered) -> None:
        """Queue a request and return at once; `answered` is called from this thread."""
        self._requests.put((request, answered))

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                asked = self._requests.get(timeout=0.5)
            except queue.Empty:
                continue
            if asked is not None:
                self._call(*asked)

    def wake(self) -> None:
        """Wake `run`, so that it sees that `stop` is set."""
        self._requests.put(None)

    def _call(self, request: LeaseRequest, answered: Answered) -> None:
        try:
            answer = self._ledger.lease(request)
        except Exception as error:
            answered(None, error)  # the engine decides which errors are retried
        else:
            answered(answer, None)
