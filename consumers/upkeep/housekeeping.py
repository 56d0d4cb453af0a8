"""Periodic chores that one worker does for all. A chore that fails is done in a later round."""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from consumers.upkeep.folder import Held
from dispatcher.clock import Clock
from dispatcher.model.errors import FairlaneError, Unreachable

_log = logging.getLogger(__name__)
LONGEST_REST_S = 10.0
"""The maximum pause after a chore that failed or took long because a server was slow or gone."""


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
