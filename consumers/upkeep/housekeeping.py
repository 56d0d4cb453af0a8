"""What one worker does for all, again and again: chores of which each is done by another round at the latest."""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from consumers.upkeep.folder import Held
from dispatcher.clock import Clock
from dispatcher.model.errors import FairlaneError, Unreachable

_log = logging.getLogger(__name__)
LONGEST_REST_S = 10.0
"""Pause after a chore that failed or took long because a server was slow or gone."""


@dataclass(frozen=True)
class Chore:
    """do: must be idempotent, so that two housekeepers do no harm; may raise FairlaneError: it is then done again.
    every_s: between two times; 0 for every round. rest: it is not done again before so many times as long as it took,
    for one that looks at all live tasks. begin: called when a term begins, to forget what an earlier one knew."""

    do: Callable[[], object]
    every_s: float = 0.0
    rest: float = 0.0
    begin: Callable[[], None] | None = None


class Housekeeper:
    """Runs in every worker; only the elected one acts. Its chores wait for one another: what must not wait for a slow
    one is another housekeeper's."""

    def __init__(self, chores: Sequence[Chore], held: Held, clock: Clock, period_s: float = 1.0) -> None:
        """period_s: between two rounds."""
        self._chores = tuple(chores)
        self._held = held
        self._clock = clock
        self._period_s = period_s
        self._due_s = [0.0] * len(self._chores)

    def run(self, stop: threading.Event) -> None:
        """Returns when `stop` is set. A server that is gone is waited for."""
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
        """Every chore that is due; one that cannot be done for want of a server does not keep the others from being
        done."""
        for index, chore in enumerate(self._chores):
            began_s = self._clock.monotonic_s()
            if began_s >= self._due_s[index]:
                sound = self._try(chore.do)
                took_s = self._clock.monotonic_s() - began_s
                rest_s = min(chore.rest * took_s, LONGEST_REST_S) if sound else LONGEST_REST_S
                self._due_s[index] = began_s + max(chore.every_s, rest_s)

    def _begin(self) -> None:
        for chore in self._chores:
            if chore.begin is not None:
                chore.begin()

    def _try(self, do: Callable[[], object]) -> bool:
        """Return False for an unexpected error. Its cause is stored, so it would end every worker that does this chore,
        one after another. The chore is done again in a later round, so nothing is lost; a refusal is for the
        operator to fix."""
        try:
            do()
        except Unreachable as error:
            _log.debug("housekeeping waits: %s", error)
        except FairlaneError as error:
            _log.warning("housekeeping: %s", error)
        except Exception:
            _log.exception("A chore of housekeeping failed; it is done again in %g s. This is a defect", LONGEST_REST_S)
            return False
        return True
