"""Whether Pulsar answers, and how far the folds are behind it: asked in the background, for all who look."""

import logging
import threading
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from typing import NamedTuple

from backends.redis.view import RedisView
from backends.settings import PulsarSettings
from dispatcher.clock import Clock
from dispatcher.model.errors import FairlaneError, NotReady, Refused, Unreachable
from quotas.snapshots import RedisSnapshots

EVERY_S = 2.0
SILENT_S = 5.0
"""After this time without an answer, Pulsar is not waited for."""
_WITHIN_S = 2.0
"""Limit for one request to Pulsar."""
_log = logging.getLogger(__name__)


class PulsarState(NamedTuple):
    """An answer of Pulsar."""

    brokers: int | None
    """None: only an administrator may ask that."""
    answer_ms: float
    """Time of one request."""
    last: Mapping[str, tuple[int, int]]
    """Ledger and entry that were stored last, by topic: `control`, or the number of an outcome topic."""


class FoldWatch:
    """Asks Pulsar in a thread of its own, so that nobody waits for it. May be called by any thread."""

    def __init__(self, view: RedisView, settings: PulsarSettings, clock: Clock) -> None:
        limits = {"operation_timeout_s": _WITHIN_S, "connect_timeout_s": _WITHIN_S}
        self._view = view
        self._settings = settings.model_copy(update=limits)
        self._clock = clock
        self._answered_s = float("-inf")
        self._known: PulsarState | FairlaneError = NotReady("Pulsar was not asked yet.", "Look again in a few seconds.")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pulsar", daemon=True)

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._stop.set()
        self._thread.join()

    def read(self) -> PulsarState:
        """Return the last answer. Raises NotReady before the first; the error of a failure."""
        if isinstance(self._known, FairlaneError):
            raise self._known
        return self._known

    def behind(self, state: PulsarState) -> dict[str, int | None]:
        """Return the entries that are stored and not folded, by topic; None for those in several ledgers, whose number
        is not known. Raises Unreachable if Redis is gone."""
        cursors = RedisSnapshots(self._view).cursors(len(state.last) - 1)
        folded = (cursors.control, *cursors.outcomes)
        return {name: behind(last, cursor) for (name, last), cursor in zip(state.last.items(), folded, strict=True)}

    @property
    def age_s(self) -> float:
        """Seconds since Pulsar last answered, `inf` if it never did."""
        return self._clock.monotonic_s() - self._answered_s

    @property
    def silence(self) -> Unreachable | None:
        """Why Pulsar need not be waited for; None if it answers."""
        if isinstance(self._known, NotReady) or self.age_s <= SILENT_S:
            return None
        cause = "Pulsar does not answer: no progress is recorded, and nothing can be changed."
        return Unreachable(cause, "An operator sees why in `fairlane doctor`.")

    def _run(self) -> None:
        while not self._stop.is_set():
            self.follow()
            self._stop.wait(EVERY_S)

    def follow(self) -> None:
        """Ask once."""
        try:
            self._known = self._ask()
        except FairlaneError as error:
            self._known = error
        except Exception:  # without this thread pages would call Pulsar silent for ever
            _log.exception("Pulsar is not watched")
            return
        if not isinstance(self._known, Unreachable):
            self._answered_s = self._clock.monotonic_s()

    def _ask(self) -> PulsarState:
        from backends.pulsar.admin import PulsarAdmin  # Pulsar's clients take long to import
        from backends.pulsar.client import topics

        known, partitions, brokers = topics(self._settings), self._settings.outcome_partitions, None
        names = {"control": known.control} | {str(part): known.outcomes(part) for part in range(partitions)}
        with closing(PulsarAdmin(self._settings)) as admin:
            began_s = time.monotonic()
            last = {name: admin.last_entry(topic) for name, topic in names.items()}
            answer_ms = (time.monotonic() - began_s) * 1000 / len(last)
            with suppress(Refused):
                brokers = len(admin.brokers())
        return PulsarState(brokers, answer_ms, last)


def behind(last: tuple[int, int], cursor: str) -> int | None:
    """Return the number of entries behind a fold's cursor; None if they are in several ledgers."""
    ledger, entry = map(int, cursor.split(":")[:2]) if cursor else (last[0], -1)
    if (ledger, entry) >= last:
        return 0
    return last[1] - entry if ledger == last[0] else None
