"""Reports a worker's sends: to Redis for `task show` and `task why`, and as a warning for each kind of error."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dispatcher.analysis.send_errors import MAX_TASKS, SendError, SendErrors
from dispatcher.clock import Clock
from dispatcher.engine.stats import EngineStats
from dispatcher.model.errors import FairlaneError

WARN_EVERY_S = 60.0
"""Minimum time between two warnings of one channel and kind of error."""
MAX_KINDS = 100
"""Maximum number of error kinds distinguished in the log. Their texts come from the channel."""
_LONGEST_KIND = 60
_log = logging.getLogger(__name__)

Store = Callable[[Mapping[str, SendError], Mapping[str, int], Mapping[str, int]], None]
"""Stores errors by task, and for how long (ms) tasks have been in their channels, and have waited for Pulsar to store
outcomes. Raises FairlaneError."""


@dataclass(slots=True)
class _Kind:
    """Errors of one kind since the last warning."""

    warn_at_s: float = float("-inf")
    targets: int = 0


class SendNotes:
    """Stores and logs send errors; the heartbeat's thread calls it once a second."""

    def __init__(self, errors: SendErrors, stats: EngineStats, store: Store, clock: Clock) -> None:
        self._errors = errors
        self._stats = stats
        self._store = store
        self._clock = clock
        self._kinds: dict[tuple[str, str], _Kind] = {}

    def store(self) -> None:
        """Store the errors since the last call, and warn of them.

        Raises FairlaneError; they are then stored the next time.
        """
        taken, waits, unrecorded = self._errors.take(), self._stats.in_channels, self._unrecorded()
        if not taken and not waits and not unrecorded:
            return
        try:
            self._store({task: error for task, (_, error) in taken.items()}, waits, unrecorded)
        except FairlaneError:
            self._errors.put_back(taken.items())
            raise
        for task, (channel, error) in taken.items():
            self._warn(task, channel, error)

    def _unrecorded(self) -> dict[str, int]:
        """Return for how long (ms) tasks have waited for Pulsar to store their outcomes."""
        late = self._stats.late_records
        if late is None:
            return {}
        return dict.fromkeys(late.tasks[:MAX_TASKS], round((self._clock.monotonic_s() - late.since_s) * 1000))

    def _warn(self, task: str, channel: str, error: SendError) -> None:
        """Warn of errors; targets that were put back are worth a line only."""
        next_step = "tried again" if error.retry_ms else "given up"
        if error.count:
            what = f"task {task}, attempt {error.attempt}"
            self._log(logging.WARNING, channel, error.reason, what, error.count, next_step)
        if error.unsent:
            self._log(logging.INFO, channel, error.unsent_reason, f"task {task}", error.unsent, "put back unsent")

    def _log(self, level: int, channel: str, reason: str, what: str, targets: int, next_step: str) -> None:
        """Log a kind of error, at most once a minute."""
        key = (channel, kind_of(reason))
        if key not in self._kinds and len(self._kinds) >= MAX_KINDS:
            key = (channel, "")
        kind = self._kinds.setdefault(key, _Kind())
        kind.targets += targets
        now_s = self._clock.monotonic_s()
        if now_s < kind.warn_at_s:
            return
        text = f"{reason or 'no reason given'} ({what}; {kind.targets} targets, {next_step})"
        _log.log(level, "Channel %s: %s. Logged at most once a minute.", channel, text)
        kind.warn_at_s, kind.targets = now_s + WARN_EVERY_S, 0


def kind_of(reason: str) -> str:
    """Return the kind of an error's reason: a status, or the name of an exception."""
    return reason.rpartition("; the last: ")[2].partition(":")[0][:_LONGEST_KIND]
