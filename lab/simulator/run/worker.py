"""One simulated worker: a real engine, woken by its inbox and its own timers. It may stall, drain or die."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty

from dispatcher.clock import Clock
from dispatcher.engine.engine import Engine
from dispatcher.engine.events import Drain, Event, LaneReady, LanesChanged
from dispatcher.engine.settings import EngineSettings
from dispatcher.engine.shared import EnginePorts
from dispatcher.ports import LaneInfo
from lab.simulator.lanes import MemoryLanes
from lab.simulator.run.agenda import Agenda, Call
from lab.simulator.scenario.scenario import WorkerSpec

STEP_US = 1_000
"""Minimum time between two steps of an engine: events that arrive in between are handled together."""


class SimInbox:
    """Implements dispatcher.engine.events.Inbox. `put` wakes the worker."""

    def __init__(self, wake: Call) -> None:
        self.events: list[Event] = []
        self._wake = wake

    def put(self, item: Event) -> None:
        self.events.append(item)
        self._wake()

    def get(self, *, block: bool = True, timeout: float | None = None) -> Event:  # noqa: ARG002 - as the port has it
        """Return the next event without waiting: the engine is given its events."""
        if not self.events:
            raise Empty
        return self.events.pop(0)

    def qsize(self) -> int:
        return len(self.events)


@dataclass
class Member:
    """A worker's name, its group, and the slot that it fills."""

    name: str
    spec: WorkerSpec
    """The spec of its group."""
    slot: str
    """The same for all workers that replace each other after a crash."""


class SimWorker:
    """A simulated worker: working, stalled (until stalled_us), draining, or gone."""

    def __init__(
        self,
        member: Member,
        agenda: Agenda,
        settings: EngineSettings,
        clock: Clock,
        make_ports: Callable[["SimWorker"], EnginePorts],
        gone: Callable[["SimWorker"], None],
    ) -> None:
        self.member = member
        self.alive = True
        self.draining = False
        self.stalled_us = 0
        self.inbox = SimInbox(self.wake)
        self.lanes: MemoryLanes
        """Set by the caller that makes the ports."""
        self._agenda = agenda
        self._gone = gone
        self._wakes_us = -1
        self._worked_us = -STEP_US
        self._deferred: list[Call] = []
        self._engine = Engine(settings, make_ports(self), clock, self.inbox)

    @property
    def name(self) -> str:
        return self.member.name

    def wake(self) -> None:
        """Wake the worker as soon as possible."""
        soonest_us, now_us = self._worked_us + STEP_US, self._agenda.now_us
        self._wake_at(soonest_us if soonest_us > now_us else now_us)

    def awake(self, call: Call) -> None:
        """Run a call inside the process: once it runs again if it is stalled, and never if it has died."""
        if self.stalled_us > self._agenda.now_us:
            self._deferred.append(call)
        elif self.alive:
            call()

    def hold(self, lanes: Sequence[LaneInfo]) -> None:
        """Set all lanes to hold, as the registry does."""
        self.inbox.put(LanesChanged(lanes))

    def ready(self, lane: str) -> None:
        """Report that a lane has messages."""
        self.inbox.put(LaneReady(lane))

    def drain(self, within_s: float = 20.0) -> None:
        self.draining = True
        self.inbox.put(Drain(within_s))

    def stall(self, seconds: float) -> None:
        self.stalled_us = max(self.stalled_us, self._agenda.now_us + int(seconds * 1e6))
        self._agenda.at(self.stalled_us, self._wake_up)

    def die(self) -> None:
        """Kill the process; messages it has already sent still arrive."""
        self.alive = False
        self._deferred.clear()
        self.inbox.events.clear()

    def _wake_up(self) -> None:
        if self.alive and self.stalled_us <= self._agenda.now_us:
            calls, self._deferred = self._deferred, []
            for call in calls:
                call()
            self.wake()

    def _wake_at(self, when_us: int) -> None:
        if self.alive and (self._wakes_us < 0 or when_us < self._wakes_us):
            self._wakes_us = when_us
            self._agenda.at(when_us, self._work)

    def _work(self) -> None:
        now_us = self._agenda.now_us
        if now_us != self._wakes_us or not self.alive:
            return
        self._wakes_us = -1
        if self.stalled_us > now_us:
            return
        self._worked_us = now_us
        events, self.inbox.events = self.inbox.events, []
        wait_s = self._engine.step(*events)
        if self._engine.drained:
            self.die()
            self._gone(self)
        else:
            self._wake_at(now_us + max(STEP_US, int(wait_s * 1e6) + 1))
