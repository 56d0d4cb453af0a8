"""Figures of the service as a whole, by tier, from the registry and the heartbeats; cached briefly."""

import threading
from typing import NamedTuple

from backends.redis.epochs import Epochs
from backends.redis.registry.registry import Registry
from backends.redis.registry.task_rows import IDLE_TASK, LIVE_TASK
from backends.redis.workers import Workers
from dispatcher.analysis.served import Served
from dispatcher.clock import Clock
from dispatcher.model.flow_pause import FlowPause
from dispatcher.model.view import Globals
from fairlane.figures.signals import ServiceState, SignalMeter, Signals, job_of_live

_KEPT_S = 2.0
_STUCK_KEPT_S = 60.0
"""A task is stuck after a quarter of an hour, and its whole row costs more than what the signals need."""


class _Figures(NamedTuple):
    read_s: float
    """Monotonic time."""
    signals: Signals
    settings: Globals


class StuckTasks(NamedTuple):
    """The number of tasks that make no progress."""

    stuck: int
    """They cannot end by themselves."""
    silent: int
    """Workers send them, and nothing has an outcome."""


class ServiceView:
    """Thread-safe view of the service; queries Redis at most once in two seconds."""

    def __init__(self, registry: Registry, epochs: Epochs, workers: Workers, clock: Clock) -> None:
        self._registry = registry
        self._epochs = epochs
        self._workers = workers
        self._clock = clock
        self._lock = threading.Lock()
        self._meter = SignalMeter()
        self._read: _Figures | None = None
        self._stuck: tuple[float, StuckTasks] | None = None
        """When stuck tasks were counted last (monotonic), and their number."""

    def signals(self) -> Signals:
        """Return the signals. Raises Unreachable; NotReady while the view is rebuilt."""
        return self._now().signals

    def flow_pauses(self) -> dict[str, FlowPause]:
        """Return the open pauses by flow. Raises as `signals`."""
        return self._now().settings.flow_pauses

    def stuck_tasks(self) -> StuckTasks:
        """Return the number of tasks that make no progress, at most a minute old. Raises as `signals`."""
        settings = self._now().settings
        with self._lock:
            now_s = self._clock.monotonic_s()
            if self._stuck is None or now_s - self._stuck[0] >= _STUCK_KEPT_S:
                served, idle = Served.by(self._workers.workers()), self._registry.tasks.live(IDLE_TASK)
                stuck = sum(bool(each.lacking) or each.is_stuck(served, settings) for each in idle)
                self._stuck = now_s, StuckTasks(stuck, sum(each.is_silent(settings) for each in idle))
            return self._stuck[1]

    def _now(self) -> _Figures:
        with self._lock:
            now_s = self._clock.monotonic_s()
            if self._read is None or now_s - self._read.read_s >= _KEPT_S:
                state = self._read_state(now_s)
                self._read = _Figures(now_s, self._meter.take(state), state.settings)
            return self._read

    def _read_state(self, now_s: float) -> ServiceState:
        self._epochs.check_counts()
        now_ms = self._clock.wall_ms()
        jobs = [job_of_live(task, now_ms) for task in self._registry.tasks.live(LIVE_TASK)]
        return ServiceState(now_s, jobs, self._registry.service.globals(), self._workers.workers())
