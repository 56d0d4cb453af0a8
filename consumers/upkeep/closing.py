"""Record in the outcome topics what ends without an outcome: overdue claims, and cancelled, stopped or expired
tasks."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from dispatcher.clock import Clock, ClockComparison
from dispatcher.model.errors import FairlaneError
from dispatcher.ports import OutcomeTopics
from dispatcher.wire.outcome import FORMAT, ClaimsEnded, CloseTask, OutcomeRecord
from quotas.ledger import RedisLedger

_log = logging.getLogger(__name__)
FORCE_CLOSE_S, FORCE_END_S = 15.0, 30.0
"""How long a task that an operator closed waits for its claims (which normally end within 13 s), and for its outcome
topic."""
STEP_S, COMPARISON_S = 1.0, 60.0
"""The step of Redis' clock that a claim's margin covers, and the time over which steps are added up."""


@dataclass(eq=False)
class Closing:
    """Two chores that end claims and close tasks.

    Targets that wait for the end of a claim are not sent until that end is recorded here. So these chores share a
    thread with nothing slow.
    """

    ledger: RedisLedger
    outcomes: OutcomeTopics
    partition_of: Callable[[str], int]
    clock: Clock
    force_end: Callable[[Sequence[str]], None]
    """Ends tasks that an operator closed, whatever is recorded, and returns at once."""
    close_again_s: float = 5.0
    """Minimum time between two CloseTask records of the same task."""
    _closed_s: dict[str, float] = field(default_factory=dict)
    _asked_s: dict[str, float] = field(default_factory=dict)
    """Since when tasks that an operator closed have been seen without an end."""
    _comparison: ClockComparison = field(default_factory=partial(ClockComparison, COMPARISON_S))
    _step_ms: int = 0
    """Forward steps of the ledger's clock by which claims are not lengthened yet."""

    def begin(self) -> None:
        """Begin a term. Drop clock readings of an earlier term, since others may have acted on them."""
        self._comparison = ClockComparison(COMPARISON_S)
        self._step_ms = 0

    def end_claims(self) -> None:
        """Record which claims have ended. Raises Unreachable.

        A forward step of the ledger's clock ends no claim: it is added to their ends. The first call of a term ends
        none either, since it has nothing to compare the clocks with.
        """
        due = self.ledger.due_claims()
        asked_s = self.clock.monotonic_s()
        gained_s = self._comparison.gained_s(self.ledger.now_ms(), asked_s, self.clock.monotonic_s())
        if gained_s is not None and gained_s > STEP_S:
            self._step_ms += round(gained_s * 1000)
            self._comparison.begin_again()
        if self._step_ms:
            self.ledger.lengthen_claims(self._step_ms)
            _log.warning(
                "Redis' clock was set forward by %.1f s: claims last longer by that. Let NTP slew it, not step it",
                self._step_ms / 1000,
            )
            self._step_ms = 0
        elif gained_s is not None:
            self._append_all(self._ended_claims(due))

    def close_tasks(self) -> None:
        """Record which tasks are to be closed, and end those whose outcome topic is not read. Raises Unreachable."""
        self._append_all(self._closed_tasks())

    def _ended_claims(self, due: Mapping[int, Sequence[str]]) -> Iterator[tuple[int, OutcomeRecord]]:
        for partition, claims in due.items():
            if claims:
                yield partition, ClaimsEnded(FORMAT, list(claims))
                _log.info(
                    "%d claims are overdue: no outcome record came before their end (outcomes-%d)",
                    len(claims),
                    partition,
                )

    def _closed_tasks(self) -> Iterator[tuple[int, OutcomeRecord]]:
        now_s = self.clock.monotonic_s()
        self._closed_s = {task: at_s for task, at_s in self._closed_s.items() if now_s - at_s < self.close_again_s}
        closable = self.ledger.closable()
        self._asked_s = {each.task: self._asked_s.get(each.task, now_s) for each in closable if each.closed}
        self.force_end([task for task, asked_s in self._asked_s.items() if now_s - asked_s >= FORCE_END_S])
        for each in closable:
            task = each.task
            if task in self._closed_s or (each.waits and now_s - self._asked_s[task] < FORCE_CLOSE_S):
                continue
            yield self.partition_of(task), CloseTask(FORMAT, task, each.code, self.clock.wall_ms(), each.reason)
            self._closed_s[task] = now_s

    def _append_all(self, records: Iterator[tuple[int, OutcomeRecord]]) -> None:
        """Append the records. After a failure continue with the other partitions, then raise the first failure."""
        failed: dict[int, FairlaneError] = {}
        for partition, record in records:
            if partition not in failed:
                try:
                    self.outcomes.append(partition, record)
                except FairlaneError as error:
                    failed[partition] = error
        if failed:
            raise next(iter(failed.values()))
