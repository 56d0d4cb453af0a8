"""Threads around a worker's engine: the inbox that they put events into, and the one that calls the ledger."""

import queue
import threading
from collections import deque
from collections.abc import Callable
from queue import Empty
from threading import Event as Signal

from dispatcher.engine.events import Event
from dispatcher.ports import Ledger
from dispatcher.wire.lease import LeaseAnswer, LeaseRequest


class EngineInbox:
    """Implements dispatcher.engine.events.Inbox, for one consumer.

    A busy worker puts thousands of events per second. `queue.Queue` takes a lock and notifies a condition for each,
    which took a fifth of the engine's time; here only a consumer that waits costs more than adding to a deque.
    """

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._arrived = Signal()
        self._is_waiting = False

    def put(self, item: Event) -> None:
        """Add an event. Any thread may call this."""
        self._events.append(item)
        if self._is_waiting:  # read after the append: the consumer sets it, and then looks for events once more
            self._arrived.set()

    def get(self, *, block: bool = True, timeout: float | None = None) -> Event:
        """Remove and return the oldest event. Raises Empty after `timeout` seconds at the latest."""
        if block and not self._events:
            self._wait(timeout)
        try:
            return self._events.popleft()
        except IndexError:
            raise Empty from None

    def qsize(self) -> int:
        """Return the number of events."""
        return len(self._events)

    def _wait(self, timeout: float | None) -> None:
        """Wait until there is an event."""
        self._arrived.clear()
        self._is_waiting = True
        if not self._events:
            self._arrived.wait(timeout)
        self._is_waiting = False


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
