"""Says once a second that this worker is there, what it does and how fast."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from dispatcher.clock import Clock
from dispatcher.engine_stats import EngineStats
from dispatcher.errors import Unreachable
from dispatcher.view import WorkerBeat

_log = logging.getLogger(__name__)
LIVE_KEPT_S = 60.0
STOPPED_KEPT_S = 3_600.0


class Beats(Protocol):
    """The registry's side. Raises Unreachable."""

    def beat(self, beat: WorkerBeat, kept_s: float) -> int: ...

    def workers(self) -> list[WorkerBeat]: ...


@dataclass(frozen=True)
class Identity:
    """What does not change while the worker lives."""

    id: str
    host: str
    pid: int
    version: str
    metrics_port: int = 0


class Heartbeat:
    """One thread. state: called at each beat. extra: what else `worker list` shows."""

    def __init__(
        self,
        beats: Beats,
        identity: Identity,
        stats: EngineStats,
        state: Callable[[], str],
        clock: Clock,
        extra: Callable[[], dict[str, Any]] = dict,
        period_s: float = 1.0,
    ) -> None:
        self._beats = beats
        self._identity = identity
        self._stats = stats
        self._state = state
        self._clock = clock
        self._extra = extra
        self._period_s = period_s
        self._started_ms = clock.wall_ms()
        self._alive = 1
        self._count_at_s = float("-inf")

    def alive_workers(self) -> int:
        """How many workers there are, this one included, as of the last beats."""
        return self._alive

    def run(self, stop: threading.Event) -> None:
        """Beats until `stop` is set; the last beat says `stopped` and is kept for an hour."""
        while not stop.is_set():
            self._try_beat(LIVE_KEPT_S)
            stop.wait(self._period_s)
        self._try_beat(STOPPED_KEPT_S)

    def _try_beat(self, kept_s: float) -> None:
        try:
            self._beats.beat(self._beat("stopped" if kept_s == STOPPED_KEPT_S else self._state()), kept_s)
            self._count()
        except Unreachable as error:
            _log.debug("no heartbeat: %s", error)

    def _count(self) -> None:
        """Every few beats: seats are shared out by it, and that need not be quick."""
        now_s = self._clock.monotonic_s()
        if now_s - self._count_at_s < 3 * self._period_s:
            return
        self._count_at_s = now_s
        self._alive = max(1, sum(beat.state in ("starting", "serving", "draining") for beat in self._beats.workers()))

    def _beat(self, state: str) -> WorkerBeat:
        stats, identity = self._stats, self._identity
        return WorkerBeat(
            id=identity.id,
            host=identity.host,
            pid=identity.pid,
            state=state,
            started_ms=self._started_ms,
            seen_ms=self._clock.wall_ms(),
            version=identity.version,
            lanes=stats.lanes,
            in_flight=stats.in_flight_targets,
            buffered=stats.buffered_targets,
            rate=stats.rate,
            tiers=stats.tier_stats(),
            metrics_port=identity.metrics_port,
            extra=self._extra(),
        )
