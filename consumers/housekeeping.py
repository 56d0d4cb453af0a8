"""What one worker does for all: ended claims, closing of cancelled and expired tasks, tombstones, lanes, pruning, and
restating what the control topic may soon forget."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from consumers.folder import Held
from consumers.lane_cleanup import LaneCleaner
from consumers.rebuild import OutcomeTopics
from consumers.side_lanes import SideLaneCleaner
from dispatcher.clock import Clock
from dispatcher.errors import FairlaneError, Unreachable
from dispatcher.outcome import FORMAT, ClaimsEnded, CloseTask

_log = logging.getLogger(__name__)


class ClaimTable(Protocol):
    """The ledger's side. All raise Unreachable."""

    def due_claims(self) -> Mapping[int, Sequence[str]]:
        """By partition: claims past their end that no ClaimsEnded of the last few seconds names."""
        ...

    def closable(self) -> Sequence[tuple[str, int]]:
        """(task, outcome code) of cancelled and expired tasks that are not ended and have no live claim."""
        ...


class Chores(Protocol):
    """The registry's side. All raise Unreachable."""

    def complete(self) -> Sequence[str]:
        """Tasks that are sealed and have an outcome for every target, yet no tombstone."""
        ...

    def prune(self) -> object:
        """Drops what is too old from its lists."""
        ...


@dataclass(frozen=True)
class HousekeepingSettings:
    """period_s: between two rounds. close_again_s: a task named in a CloseTask is not named in another before that.
    sweep_finished_s: between two looks for complete tasks without a tombstone; prune_s: between two prunings;
    restate_s: between two looks whether records of long ago are to be restated."""

    period_s: float = 1.0
    close_again_s: float = 5.0
    sweep_finished_s: float = 5.0
    prune_s: float = 60.0
    restate_s: float = 600.0


class Housekeeper:
    """Runs in every worker; only the elected one acts. Each chore is idempotent, so two of them do no harm."""

    def __init__(
        self,
        claims: ClaimTable,
        chores: Chores,
        outcomes: OutcomeTopics,
        partition_of: Callable[[str], int],
        finished: Callable[[list[str]], None],
        cleaner: LaneCleaner,
        side_lanes: SideLaneCleaner,
        restate: Callable[[], None],
        held: Held,
        clock: Clock,
        settings: HousekeepingSettings = HousekeepingSettings(),
    ) -> None:
        self._claims = claims
        self._chores = chores
        self._outcomes = outcomes
        self._partition_of = partition_of
        self._finished = finished
        self._cleaner = cleaner
        self._side_lanes = side_lanes
        self._restate = restate
        self._held = held
        self._clock = clock
        self._settings = settings
        self._closed_s: dict[str, float] = {}
        self._due_s: dict[str, float] = {}

    def run(self, stop: threading.Event) -> None:
        """Returns when `stop` is set. A server that is gone is waited for."""
        elected = False
        while not stop.is_set():
            held = self._held()
            if held and not elected:
                self._cleaner.begin()
                self._side_lanes.begin()
            elected = held
            if held:
                self.round()
            stop.wait(self._settings.period_s)

    def round(self) -> None:
        """Every chore once; one that cannot be done for want of a server does not keep the others from being done."""
        self._try(self._end_claims)
        self._try(self._close_tasks)
        self._try(self._cleaner.round)
        self._try(self._side_lanes.round)
        if self._is_due("finished", self._settings.sweep_finished_s):
            self._try(self._end_tasks)
        if self._is_due("prune", self._settings.prune_s):
            self._try(self._chores.prune)
        if self._is_due("restate", self._settings.restate_s):
            self._try(self._restate)

    def _try(self, chore: Callable[[], object]) -> None:
        """Every chore is done again in the next round, so nothing is lost; a refusal is for the operator to mend."""
        try:
            chore()
        except Unreachable as error:
            _log.debug("housekeeping waits: %s", error)
        except FairlaneError as error:
            _log.warning("housekeeping: %s", error)

    def _is_due(self, chore: str, every_s: float) -> bool:
        now_s = self._clock.monotonic_s()
        if now_s < self._due_s.get(chore, 0.0):
            return False
        self._due_s[chore] = now_s + every_s
        return True

    def _end_claims(self) -> None:
        for partition, claims in self._claims.due_claims().items():
            if claims:
                self._outcomes.append(partition, ClaimsEnded(FORMAT, list(claims)))
                _log.info("%d claims ended without a record (outcomes-%d)", len(claims), partition)

    def _close_tasks(self) -> None:
        now_s = self._clock.monotonic_s()
        self._closed_s = {
            task: at_s for task, at_s in self._closed_s.items() if now_s - at_s < self._settings.close_again_s
        }
        for task, code in self._claims.closable():
            if task not in self._closed_s:
                self._outcomes.append(self._partition_of(task), CloseTask(FORMAT, task, code, self._clock.wall_ms()))
                self._closed_s[task] = now_s

    def _end_tasks(self) -> None:
        """Those whose end was seen by a worker that died before it wrote the tombstone."""
        self._finished(list(self._chores.complete()))
