"""Objects that the parts of an engine share."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from dispatcher.analysis.send_errors import SendErrors
from dispatcher.clock import Clock
from dispatcher.engine.events import Inbox
from dispatcher.engine.settings import EngineSettings
from dispatcher.engine.stats import EngineStats
from dispatcher.ports import Courier, DeadLetters, EnvelopePublisher, Lanes, LeaseCaller, OutcomeLog
from dispatcher.scheduling.shared_bound import SharedBound
from dispatcher.wire.lease import Pace
from dispatcher.wire.topics import Topics


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


@dataclass(frozen=True, kw_only=True)
class EnginePorts:
    """All ports of the engine."""

    lanes: Lanes
    courier: Courier
    leases: LeaseCaller
    outcomes: OutcomeLog
    publisher: EnvelopePublisher
    dead_letters: DeadLetters
    topics: Topics
    allot: Callable[[Sequence[Pace], Collection[str], float], None] = lambda _paces, _flows, _carried_out_s: None
    """Keep to the times at which granted targets of capped flows may be sent. Called with the grants of one call, all
    flows to which it granted something, and the monotonic time of the ledger's answer, before the engine sends them."""
    is_reopened: Callable[[str], bool] = lambda _flow: False
    """Whether the last pause of a flow (an app on a channel) was ended before its time. Called from the engine's
    thread."""


@dataclass(frozen=True, kw_only=True)
class Shared:
    """The objects that all parts of an engine use: one of each."""

    settings: EngineSettings
    ports: EnginePorts
    clock: Clock
    timers: Timers
    inbox: Inbox
    stats: EngineStats
    errors: SendErrors
    unsettled: SharedBound
    """Targets that are sent, or need no sending, and are not yet settled."""
    held: SharedBound
    """Targets that wait for an answer other than HELD, or for their outcome topic."""


class EnginePart:
    """A part of an engine, with what nearly all parts use of `Shared`."""

    def __init__(self, shared: Shared) -> None:
        self._settings = shared.settings
        self._ports = shared.ports
        self._clock = shared.clock
        self._timers = shared.timers
        self._inbox = shared.inbox
        self._stats = shared.stats
        self._unsettled = shared.unsettled
