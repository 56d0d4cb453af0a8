"""Hold this worker's share of the jobs that one worker does for all (folds, rebuild, housekeeping).

The holder of a job has its lock in Redis, which expires. The locks only save work. Two holders are harmless because
every change they make is guarded (the fold's cursor, the epoch's id) or idempotent.
"""

import logging
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from backends.redis.workers import JobLocks
from dispatcher.clock import Clock
from dispatcher.model.errors import FairlaneError, Unreachable

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class JobLockSettings:
    """How long locks last, and how often they are renewed."""

    ttl_s: float = 3.5
    """How long a lock outlives its last renewal."""
    period_s: float = 1.0
    """Time between two renewals."""


@dataclass(frozen=True)
class _Held:
    names: frozenset[str] = frozenset()
    until_s: float = 0.0
    free: frozenset[str] = frozenset()
    workers: int = 1


@dataclass(eq=False)
class HeldJobs:
    """Renews the locks of this worker's jobs and takes free jobs: its fair share at once, others if they stay free."""

    locks: JobLocks
    names: Sequence[str]
    owner: str
    clock: Clock
    workers: Callable[[], int]
    settings: JobLockSettings = field(default_factory=JobLockSettings)
    _held: _Held = field(default_factory=_Held)

    def held(self, name: str) -> bool:
        """Return whether the job is ours, according to the last renewal."""
        held = self._held
        return name in held.names and self.clock.monotonic_s() < held.until_s

    def run(self, stop: threading.Event) -> None:
        """Renew until `stop` is set, then release the jobs, so that others take over at once."""
        while not stop.is_set():
            try:
                self.renew()
            except FairlaneError as error:  # a refusal would end every worker
                level = logging.DEBUG if isinstance(error, Unreachable) else logging.ERROR
                _log.log(level, "job locks cannot be renewed: %s", error)
            stop.wait(self.settings.period_s)
        self._leave()

    def renew(self) -> None:
        """Renew the locks of this worker's jobs, take free jobs, and release jobs beyond its fair share."""
        asked_s = self.clock.monotonic_s()
        before = self._held
        workers = max(1, self.workers())
        fair = math.ceil(len(self.names) / workers)
        ttl_ms = round(self.settings.ttl_s * 1000)
        names = sorted(self.names, key=lambda name: name not in before.names)
        owners = self.locks.hold(names, self.owner, ttl_ms, fair, before.free)
        own = [name for name in self.names if owners.get(name) == self.owner]
        if workers > before.workers:
            own = self._share(own, fair)
        self._held = _Held(
            names=frozenset(own),
            until_s=asked_s + self.settings.ttl_s,
            free=frozenset(name for name in self.names if name not in owners),
            workers=workers,
        )

    def _share(self, own: list[str], limit: int) -> list[str]:
        """Release the jobs above our share. Call this only after a worker has joined: a dead worker is still counted
        for a while, and jobs released for it would have no holder."""
        surplus = own[limit:]
        if surplus:
            self.locks.release(surplus, self.owner)
        return own[:limit]

    def _leave(self) -> None:
        held, self._held = self._held, _Held()
        try:
            self.locks.release(sorted(held.names), self.owner)
        except FairlaneError as error:
            _log.debug("job locks were not released and will expire: %s", error)
