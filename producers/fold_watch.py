"""How far the folds are behind Pulsar: asked rarely, and once for all who look."""

import threading
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from typing import NamedTuple

from backends.redis.view import RedisView
from backends.settings import PulsarSettings
from dispatcher.model.errors import FairlaneError, Refused
from quotas.snapshots import RedisSnapshots

KEPT_S = 5.0
_WITHIN_S = 2.0
"""Limit for one request to Pulsar."""


class PulsarState(NamedTuple):
    """Pulsar as the folds see it."""

    brokers: int | None
    """None: only an administrator may ask that."""
    answer_ms: float
    """Time of one request."""
    behind: Mapping[str, int | None]
    """Entries that are stored and not folded, by topic (`control`, or the number of an outcome topic).

    None: the fold is in an older ledger, so their number is not known.
    """


class FoldWatch:
    """Asks Pulsar at most once in KEPT_S. May be called by any thread."""

    def __init__(self, view: RedisView, settings: PulsarSettings) -> None:
        limits = {"operation_timeout_s": _WITHIN_S, "connect_timeout_s": _WITHIN_S}
        self._view = view
        self._settings = settings.model_copy(update=limits)
        self._lock = threading.Lock()
        self._kept_until_s = float("-inf")
        self._known: PulsarState | FairlaneError | None = None

    def read(self) -> PulsarState:
        """Return the state of some seconds ago or less; an older one while Pulsar is asked. Raises NotConfigured,
        Unreachable, NotFound, Refused."""
        if self._lock.acquire(blocking=self._known is None):
            try:
                if time.monotonic() >= self._kept_until_s:
                    self._known = self._asked()
                    self._kept_until_s = time.monotonic() + KEPT_S
            finally:
                self._lock.release()
        known = self._known
        assert known is not None  # who comes first waits
        if isinstance(known, FairlaneError):
            raise known
        return known

    def _asked(self) -> PulsarState | FairlaneError:
        try:
            return self._ask()
        except FairlaneError as error:
            return error

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
        cursors = RedisSnapshots(self._view).cursors(partitions)
        folded = dict(zip(names, (cursors.control, *cursors.outcomes), strict=True))
        return PulsarState(brokers, answer_ms, {name: behind(last[name], folded[name]) for name in names})


def behind(last: tuple[int, int], cursor: str) -> int | None:
    """Return the number of entries behind a fold's cursor; None if they are in several ledgers."""
    ledger, entry = map(int, cursor.split(":")[:2]) if cursor else (last[0], -1)
    if (ledger, entry) >= last:
        return 0
    return last[1] - entry if ledger == last[0] else None
