"""What the service as a whole is doing, by tier, from the registry and the heartbeats; kept for a moment."""

import threading
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from backends.task_rows import LiveTask
from dispatcher.clock import Clock
from dispatcher.tier import TIERS
from dispatcher.view import Globals, WorkerBeat

_KEPT_S = 2.0
_WINDOW_S = 10.0


class TierLoad(NamedTuple):
    """backlog: targets. drain_s: None if nothing of it is being sent. wanted, actual: shares, 0 to 1."""

    backlog: int
    drain_s: float | None
    wanted: float
    actual: float


class Service(Protocol):
    def live(self) -> Sequence[LiveTask]: ...

    def globals(self) -> Globals: ...


class Crew(Protocol):
    def workers(self) -> Sequence[WorkerBeat]: ...


class _Sample(NamedTuple):
    at_s: float
    sent: dict[str, dict[str, int]]


class ServiceView:
    """For many threads; asks Redis at most once in two seconds."""

    def __init__(self, service: Service, crew: Crew, clock: Clock) -> None:
        self._service = service
        self._crew = crew
        self._clock = clock
        self._lock = threading.Lock()
        self._samples: list[_Sample] = []
        self._tiers: dict[str, TierLoad] = {}

    def tiers(self) -> dict[str, TierLoad]:
        """By tier. Raises Unreachable."""
        with self._lock:
            now_s = self._clock.monotonic_s()
            if not self._samples or now_s - self._samples[-1].at_s >= _KEPT_S:
                self._tiers = self._read(now_s)
            return self._tiers

    def _read(self, now_s: float) -> dict[str, TierLoad]:
        backlog = backlog_by_tier(self._service.live(), self._clock.wall_ms())
        weights = self._service.globals().tier_weights
        sent = {beat.id: {tier: stats.sent for tier, stats in beat.tiers.items()} for beat in self._crew.workers()}
        self._samples.append(_Sample(now_s, sent))
        recent = [sample for sample in self._samples if now_s - sample.at_s <= _WINDOW_S]
        self._samples = recent if len(recent) > 1 else self._samples[-2:]
        rates = _rates(self._samples[0], self._samples[-1])
        total_rate = sum(rates.values())
        total_weight = sum(weights[tier] for tier in TIERS if backlog[tier])
        return {
            tier: TierLoad(
                backlog[tier],
                backlog[tier] / rates[tier] if rates[tier] else (0.0 if not backlog[tier] else None),
                weights[tier] / total_weight if backlog[tier] else 0.0,
                rates[tier] / total_rate if total_rate else 0.0,
            )
            for tier in map(str, TIERS)
        }


def backlog_by_tier(tasks: Sequence[LiveTask], now_ms: int) -> dict[str, int]:
    """Targets without an outcome, of tasks that run (not paused, not scheduled for later)."""
    backlog = dict.fromkeys(map(str, TIERS), 0)
    for task in tasks:
        if task.state == "running" and (task.sealed or not task.hold) and task.start_ms <= now_ms:
            total = task.total if task.sealed else max(task.published, task.finals)
            backlog[task.tier] += max(0, total - task.finals)
    return backlog


def _rates(first: _Sample, last: _Sample) -> dict[str, float]:
    """Targets a second between two samples, over the workers there were in both, and those that joined in between."""
    seconds = last.at_s - first.at_s
    rates = dict.fromkeys(map(str, TIERS), 0.0)
    for worker, sent in last.sent.items():
        before = first.sent.get(worker, {})
        for tier, count in sent.items():
            rates[tier] += max(0, count - before.get(tier, 0)) / seconds if seconds > 0 else 0.0
    return rates
