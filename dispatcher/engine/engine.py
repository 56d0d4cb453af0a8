"""The engine: one worker's decisions about its lanes. Synchronous, one thread; all events arrive in one inbox."""

import threading
from queue import Empty

from dispatcher.analysis.send_errors import SendErrors
from dispatcher.clock import Clock
from dispatcher.engine.events import BatchSent, Drain, Event, Inbox, LaneReady, LanesChanged, LeaseAnswered, Stored
from dispatcher.engine.lanes import WorkingSet
from dispatcher.engine.leases import Leases
from dispatcher.engine.sending import Sending
from dispatcher.engine.settings import EngineSettings
from dispatcher.engine.settling import Settling
from dispatcher.engine.shared import EnginePorts, Shared, Timers
from dispatcher.engine.stats import EngineStats
from dispatcher.scheduling.shared_bound import SharedBound

LONGEST_SLEEP_S = 0.5
"""Maximum delay before a stop signal is seen."""
EXPIRY_S = 0.25
"""Interval of the search for credit near its use-by in channels that have no room."""


class Engine:
    """Receives, leases, picks, sends and settles. After every event, each part does everything that is possible now."""

    def __init__(self, settings: EngineSettings, ports: EnginePorts, clock: Clock, inbox: Inbox) -> None:
        self.stats = EngineStats()
        self.errors = SendErrors()
        self.drained = False
        self._clock = clock
        self._inbox = inbox
        self._timers = Timers()
        self._drain_by_s: float | None = None
        partition_of = ports.topics.partition_of
        shared = Shared(
            settings=settings,
            ports=ports,
            clock=clock,
            timers=self._timers,
            inbox=inbox,
            stats=self.stats,
            errors=self.errors,
            unsettled=SharedBound(settings.unsettled_targets, partition_of),
            held=SharedBound(settings.held_targets, partition_of),
        )
        self._working = WorkingSet(shared)
        self._settling = Settling(shared, self._working)
        self._sending = Sending(shared, self._working, self._settling)
        self._leases = Leases(shared, self._working, self._sending, self._settling)
        self._timers.at(clock.monotonic_s() + EXPIRY_S, self._expire)

    def run(self, stop: threading.Event) -> None:
        """Run until drained, or until `stop` is set. In the latter case nothing is cleaned up."""
        wait_s = 0.0
        while not self.drained and not stop.is_set():
            self._receive(wait_s)
            wait_s = self.advance()

    def step(self, *events: Event) -> float:
        """Handle events and do everything they allow. Return the seconds until there is more to do."""
        for event in events:
            self._handle(event)
        return self.advance()

    # ------------------------------------------------------------- events
    def _receive(self, wait_s: float) -> None:
        inbox = self._inbox
        try:
            event = inbox.get(timeout=wait_s) if wait_s > 0 else inbox.get(block=False)
        except Empty:
            return
        self._handle(event)
        for _ in range(inbox.qsize()):
            self._handle(inbox.get(block=False))

    def _handle(self, event: Event) -> None:
        match event:
            case Stored():
                self._settling.stored(event)
            case BatchSent():
                self._sending.sent(event, self._clock.monotonic_s(), self._clock.wall_ms())
            case LaneReady():
                self._working.ready(event.lane)
            case LeaseAnswered():
                self._leases.answered(event, self._clock.monotonic_s())
            case LanesChanged():
                self._sending.overrides = event.overrides
                if self._drain_by_s is None:
                    self._leases.waiting.change(event.waiting)
                    self._sending.retune(self._working.change(event.lanes))
            case Drain():
                self._start_drain(event)

    # ------------------------------------------------------------- progress
    def advance(self) -> float:
        """Do everything that is possible now. Return the seconds until there is more to do, unless an event arrives."""
        now_s = self._clock.monotonic_s()
        self._timers.run(now_s)
        draining = self._drain_by_s is not None
        busy = False if draining else self._working.fill(now_s)
        self._sending.pump(now_s)
        self._settling.flush(now_s, everything=draining)
        next_ask_s = self._leases.advance(now_s)
        if draining:
            self._finish_drain(now_s)
        if busy:
            return 0.0
        wakes = (next_ask_s, self._settling.next_s, self._timers.next_s, self._drain_by_s)
        sleep_s = LONGEST_SLEEP_S
        for wake_s in wakes:
            if wake_s is not None and wake_s - now_s < sleep_s:
                sleep_s = wake_s - now_s
        return max(0.0, sleep_s)

    def _expire(self) -> None:
        now_s = self._clock.monotonic_s()
        self._sending.expire(now_s)
        self._working.hurry()
        self.stats.in_channels = self._sending.in_channels(now_s)
        self.stats.late_records = self._settling.late_records(now_s)
        self._timers.at(now_s + EXPIRY_S, self._expire)

    # ------------------------------------------------------------- the end
    def _start_drain(self, event: Drain) -> None:
        if self._drain_by_s is None:
            self._drain_by_s = self._clock.monotonic_s() + event.within_s
            self._leases.draining = True
            self._working.close_all()

    def _finish_drain(self, now_s: float) -> None:
        done = not self._working.lanes and not self._leases.pending
        if done or (self._drain_by_s is not None and now_s >= self._drain_by_s):
            self._working.detach_all()
            self.drained = True
