"""The inbox of a worker's engine: any thread puts events in, the engine's thread takes them out."""

from collections import deque
from queue import Empty
from threading import Event as Signal

from dispatcher.engine.events import Event


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
