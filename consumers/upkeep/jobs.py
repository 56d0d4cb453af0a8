"""The jobs that one worker does for all (folds, rebuild, housekeeping): this worker's share of them, and the chores.

The holder of a job has its lock in Redis, which expires. The locks only save work. Two holders are harmless because
every change they make is guarded (the fold's cursor, the epoch's id) or idempotent. A chore that fails is done in a
later round.
"""

import logging
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from backends.redis.workers import JobLocks
from consumers.upkeep.folder import Held
from dispatcher.clock import Clock
from dispatcher.model.errors import FairlaneError, Unreachable

_log = logging.getLogger(__name__)
LONGEST_REST_S = 10.0
"""The maximum pause after a chore that failed or took long because a server was slow or gone."""


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


@dataclass(frozen=True)
class Chore:
    """One periodic chore."""

    do: Callable[[], object]
    """The action. It must be idempotent, so that two housekeepers do no harm. If it raises FairlaneError, it is done
    again."""
    every_s: float = 0.0
    """The time between two runs; 0: every round."""
    rest: float = 0.0
    """The minimum time before the next run, as a multiple of the last run's duration; for chores that read all live
    tasks."""
    begin: Callable[[], None] | None = None
    """Called when a term begins, to drop state of an earlier term."""


class Housekeeper:
    """Runs chores in every worker; only the elected one acts.

    Its chores run one after another: a chore that must not wait for a slow one belongs to another housekeeper.
    """

    def __init__(self, chores: Sequence[Chore], held: Held, clock: Clock, period_s: float = 1.0) -> None:
        """`held`: whether this worker holds the job. `period_s` is the time between two rounds."""
        self._chores = tuple(chores)
        self._held = held
        self._clock = clock
        self._period_s = period_s
        self._due_s = [0.0] * len(self._chores)

    def run(self, stop: threading.Event) -> None:
        """Run until `stop` is set. Waits for a server that is gone."""
        elected = False
        while not stop.is_set():
            held = self._held()
            if held and not elected:
                self._begin()
            elected = held
            if held:
                self.round()
            stop.wait(self._period_s)

    def round(self) -> None:
        """Run every chore that is due. A chore that fails because a server is gone does not stop the others."""
        for index, chore in enumerate(self._chores):
            began_s = self._clock.monotonic_s()
            if began_s >= self._due_s[index]:
                succeeded = self._try(chore.do)
                took_s = self._clock.monotonic_s() - began_s
                rest_s = min(chore.rest * took_s, LONGEST_REST_S) if succeeded else LONGEST_REST_S
                self._due_s[index] = began_s + max(chore.every_s, rest_s)

    def _begin(self) -> None:
        for chore in self._chores:
            if chore.begin is not None:
                chore.begin()

    def _try(self, do: Callable[[], object]) -> bool:
        """Run a chore. Return False for an unexpected error.

        The cause may be stored data. If the error ended this worker, the next one to hold the job would end too, and so
        on. The chore runs again in a later round, so nothing is lost. An operator must resolve a refusal.
        """
        try:
            do()
        except Unreachable as error:
            _log.debug("housekeeping waits: %s", error)
        except FairlaneError as error:
            _log.warning("housekeeping: %s", error)
        except Exception:
            _log.exception(
                "A housekeeping chore failed; it is tried again in %g s. Please report this defect", LONGEST_REST_S
            )
            return False
        return True
