"""Reports once a second that this worker is alive, what it does and how fast."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from backends.redis.workers import BEAT_KEPT_S, Workers
from dispatcher.clock import ServiceClock
from dispatcher.engine.stats import EngineStats
from dispatcher.model.errors import FairlaneError, Unreachable
from dispatcher.model.tier import TIERS, Tier
from dispatcher.model.view import TierStats, Unrecorded, WorkerBeat
from dispatcher.model.view_form import FORM
from fairlane.worker.live_lanes import ALL_TIERS, Peer

_log = logging.getLogger(__name__)
PERIOD_S = 1.0
COUNT_EVERY_S = 3.0
"""Minimum time between two counts of the workers. The count divides the jobs, which need not be quick."""
MAX_NEWER = 50
"""Maximum lanes with envelopes of a later version that a heartbeat names."""
RATE_BEATS = 3
"""Number of beats over which rates are computed."""
STOPPED_KEPT_S = 3_600.0
STOPPED = "stopped"


@dataclass(frozen=True, kw_only=True)
class WorkerIdentity:
    """Facts that do not change while the worker lives."""

    id: str
    host: str
    pid: int
    version: str
    metrics_port: int = 0
    tiers: tuple[Tier, ...] = TIERS
    channels: frozenset[str] | None = None
    """Names of the worker's channels. None: not known."""


@dataclass
class Heartbeat:
    """Sends the heartbeats, in one thread."""

    beats: Workers
    identity: WorkerIdentity
    stats: EngineStats
    state: Callable[[], str]
    """Called at each beat."""
    clock: ServiceClock
    """Adjusted at each beat."""
    store_counts: Callable[[], None] = lambda: None
    """Called after each beat, to store other counts. Raises FairlaneError."""
    newer_lanes: Callable[[], Sequence[str]] = list
    """Returns the lanes with envelopes of a later version."""

    def __post_init__(self) -> None:
        self._started_ms = self.clock.wall_ms()
        self._alive = 1
        self._peers: tuple[Peer, ...] = ()
        self._count_at_s = float("-inf")
        self._sent: deque[tuple[float, dict[str, int]]] = deque(maxlen=RATE_BEATS + 1)

    def alive_workers(self) -> int:
        """Return the number of workers, this one included, as of the last beats."""
        return self._alive

    def peers(self) -> tuple[Peer, ...]:
        """Return the workers that hold lanes, this one included, as of the last beats; none while that is not known."""
        return self._peers

    def run(self, stop: threading.Event) -> None:
        """Send beats until `stop` is set; the last beat says `stopped` and is kept for an hour."""
        while not stop.is_set():
            self.beat(self.state())
            stop.wait(PERIOD_S)
        self.beat(STOPPED)

    def beat(self, state: str) -> None:
        """Send one heartbeat, and store the other counts. What Redis refuses is logged: it must not end a worker."""
        beat, asked_s = self._beat(state), self.clock.monotonic_s()
        kept_s = STOPPED_KEPT_S if state == STOPPED else BEAT_KEPT_S
        try:
            self.clock.sync(self.beats.beat(beat, kept_s), asked_s)
            self._count()
            self._try_store_counts()
        except FairlaneError as error:
            level = logging.DEBUG if isinstance(error, Unreachable) else logging.ERROR
            _log.log(level, "the heartbeat cannot be stored: %s", error)
            # Other workers could not beat either: once Redis is back they seem gone until they beat.
            self._count_at_s = self.clock.monotonic_s()

    def _try_store_counts(self) -> None:
        """Store the other counts. Refused ones are tried again: figures must not end a worker."""
        try:
            self.store_counts()
        except FairlaneError as error:
            _log.debug("figures are not stored: %s", error)

    def _count(self) -> None:
        """Count the workers, every few beats."""
        now_s = self.clock.monotonic_s()
        if now_s - self._count_at_s < COUNT_EVERY_S:
            return
        self._count_at_s = now_s
        beats = self.beats.workers()
        self._alive = max(1, sum(beat.is_live or beat.state == "draining" for beat in beats))
        others = (beat for beat in beats if beat.id != self.identity.id and beat.is_live)
        self._peers = (self._me(), *map(_peer, others))

    def _me(self) -> Peer:
        identity, newer = self.identity, tuple(self.newer_lanes()[:MAX_NEWER])
        return Peer(identity.id, tuple(map(str, identity.tiers)), newer, identity.channels)

    def _beat(self, state: str) -> WorkerBeat:
        stats, identity, tiers = self.stats, self.identity, self._tiers()
        return WorkerBeat(
            id=identity.id,
            host=identity.host,
            pid=identity.pid,
            state=state,
            started_ms=self._started_ms,
            seen_ms=self.clock.wall_ms(),
            version=identity.version,
            lanes=stats.lanes,
            in_flight=stats.in_flight_targets,
            buffered=stats.buffered_targets,
            rate=sum(tier.rate for tier in tiers.values()),
            tiers=tiers,
            metrics_port=identity.metrics_port,
            extra=self._extra(state),
            form=FORM,
        )

    def _extra(self, state: str) -> dict[str, Any]:
        """Return the further fields that apply.

        holds: the tiers whose lanes it holds, if not all. newer: lanes that it leaves to newer workers. channels: so
        that it leaves lanes of other channels to workers that have them.
        """
        identity = self.identity
        extra = {
            "holds": None if set(identity.tiers) == set(TIERS) else list(map(str, identity.tiers)),
            "newer": self.newer_lanes()[:MAX_NEWER] or None,
            "channels": None if identity.channels is None else sorted(identity.channels),
            "unrecorded": self._unrecorded(state),
        }
        return {name: value for name, value in extra.items() if value is not None}

    def _unrecorded(self, state: str) -> Any:
        """Return the outcomes whose records are late, so that claims on them are kept while this worker lives.

        Outcomes not recorded when it stopped can no longer be recorded.
        """
        late = self.stats.late_records
        if late is None or state == STOPPED:
            return None
        since_ms = self.clock.wall_ms() - round((self.clock.monotonic_s() - late.since_s) * 1000)
        return msgspec.to_builtins(Unrecorded(since_ms, late.targets, late.tasks))

    def _tiers(self) -> dict[str, TierStats]:
        """Return the figures by tier, with the rates of the last few beats."""
        now_s, tiers = self.clock.monotonic_s(), self.stats.tier_stats()
        self._sent.append((now_s, {name: tier.sent for name, tier in tiers.items()}))
        since_s, before = self._sent[0]
        took_s = now_s - since_s
        return {
            name: msgspec.structs.replace(tier, rate=(tier.sent - before[name]) / took_s if took_s > 0 else 0.0)
            for name, tier in tiers.items()
        }


def _peer(beat: WorkerBeat) -> Peer:
    return Peer(beat.id, ALL_TIERS if beat.holds is None else beat.holds, beat.newer, beat.channels)
