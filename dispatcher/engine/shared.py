"""Objects that the parts of an engine share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from dispatcher.analysis.send_errors import SendErrors
from dispatcher.clock import Clock
from dispatcher.engine.events import Inbox
from dispatcher.engine.settings import EngineSettings
from dispatcher.engine.stats import EngineStats
from dispatcher.ports import Paces
from dispatcher.scheduling.shared_bound import SharedBound
from dispatcher.wire.lease import Pace


class Timers:
    """Delayed calls. The owner of the timers runs them by its monotonic clock."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0

    def at(self, when_s: float, call: Callable[[], None]) -> None:
        self._number += 1
        heappush(self._heap, (when_s, self._number, call))

    def run(self, now_s: float) -> None:
        """Make the calls that are due."""
        while self._heap and self._heap[0][0] <= now_s:
            heappop(self._heap)[2]()

    @property
    def next_s(self) -> float | None:
        return self._heap[0][0] if self._heap else None


class NoPaces:
    """Paces of a worker whose channels do not keep to them."""

    def allot(self, _paces: Sequence[Pace], _carried_out_s: float, /) -> None:
        """Do nothing."""


@dataclass(frozen=True, kw_only=True)
class Shared:
    """The objects that all parts of an engine use: one of each."""

    settings: EngineSettings
    clock: Clock
    timers: Timers
    inbox: Inbox
    stats: EngineStats
    paces: Paces
    is_reopened: Callable[[str], bool]
    """Whether the last pause of a flow was ended before its time."""
    errors: SendErrors
    unsettled: SharedBound
    """Targets that are sent, or need no sending, and are not yet settled."""
    held: SharedBound
    """Targets that wait for an answer other than HELD, or for their outcome topic."""
