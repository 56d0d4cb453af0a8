"""End tasks whose targets all have an outcome. The tombstone goes to the control topic first, then into the view."""

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import replace

from backends.redis.registry.registry import Registry
from backends.redis.registry.task_rows import TASK_VIEW
from dispatcher.clock import Clock
from dispatcher.model.errors import Unreachable
from dispatcher.model.view import TargetCounts, TaskView
from dispatcher.ports import ControlLog
from dispatcher.wire.control import FORMAT, Finished

_log = logging.getLogger(__name__)
_BATCH = 100
"""Tasks ended at once: they share a disk write."""


class End(NamedTuple):
    """The final state of a task."""

    state: str
    reason: str = ""
    """Why it failed."""


def end_of(view: TaskView) -> End:
    """Return the end of a task whose targets all have an outcome. The first matching row applies:

    | request             | outcomes of the targets         | end                             |
    |---------------------|---------------------------------|---------------------------------|
    | a cancel            | some cancelled, or not sealed   | cancelled                       |
    | a stop for a reason | some cancelled, or not sealed   | failed, for that reason         |
    | anything            | some expired                    | expired                         |
    | its ttl has passed  | not sealed                      | expired                         |
    | anything            | none sent, at least one failed  | failed, since nothing was sent  |
    | anything            | anything else                   | completed                       |

    A cancel or a stop has no effect once every target of a sealed task has its outcome. Before the seal it has one:
    the rest of the audience is not taken. A cancelled task stays cancelled when it is also stopped.
    """
    counts = view.targets
    cut_short = not view.sealed
    if (counts.cancelled or cut_short) and view.state in ("cancelled", "failed"):
        return End(view.state, view.reason)
    if counts.expired or (cut_short and view.state == "expired"):
        return End("expired")
    if counts.failed and not counts.sent:
        return End("failed", _nothing_sent(view.id, counts))
    return End("completed")


def _nothing_sent(task: str, counts: TargetCounts) -> str:
    invalid = f" and {counts.invalid:,} invalid" if counts.invalid else ""
    return (
        f"nothing was sent: {counts.failed:,} targets failed{invalid} (`fairlane task failures {task}` has the reasons)"
    )


@dataclass(eq=False)
class Finisher:
    """Ends complete tasks. The ids come from the folds, and from the housekeeper for those a crash left.

    Ending twice is harmless: the first `Finished` wins.
    """

    registry: Registry
    complete: Callable[[], bool]
    """Whether the view is complete. A view being rebuilt may not know yet that a task ended long ago."""
    control: ControlLog
    clock: Clock
    retry_s: float = 0.5
    _inbox: queue.Queue[str] = field(default_factory=queue.Queue)
    _queued: set[str] = field(default_factory=set)
    """The contents of the inbox, since a task that cannot be ended yet is offered repeatedly."""
    _forced: set[str] = field(default_factory=set)
    """Tasks to be ended although some of their targets have no outcome."""

    def take(self, tasks: Sequence[str]) -> None:
        """Queue tasks to be ended. Callable from any thread; returns at once."""
        for task in tasks:
            if task not in self._queued:
                self._queued.add(task)
                self._inbox.put(task)

    def force_end(self, tasks: Sequence[str]) -> None:
        """End tasks that an operator closed and whose outcome topic is not read.

        Targets without an outcome in the view end as cancelled. Callable from any thread; returns at once. Call it
        again for a task that has not ended.
        """
        self._forced.update(tasks)
        self.take(tasks)

    def run(self, stop: threading.Event) -> None:
        """Run until `stop` is set. The next housekeeper finds the tasks not ended by then."""
        while not stop.is_set():
            tasks = self._next()
            try:
                self.finish(tasks)
            except Unreachable as error:
                _log.debug("%d tasks cannot be ended yet: %s", len(tasks), error)
                self.take(tasks)
                stop.wait(self.retry_s)
            except Exception:
                self._one_by_one(tasks)

    def _one_by_one(self, tasks: Sequence[str]) -> None:
        """End each task alone, so that a failure stops no other. The housekeeper offers the failed ones again."""
        for task in tasks:
            try:
                self.finish([task])
            except Unreachable:
                self.take([task])
            except Exception:
                _log.exception(
                    "Task %s has an outcome for every target but cannot be ended. This is a bug; please report it", task
                )

    def _next(self) -> list[str]:
        """Return the queued tasks, up to a batch; wait a little for the first."""
        tasks: dict[str, None] = {}
        try:
            tasks[self._inbox.get(timeout=0.2)] = None
            while len(tasks) < _BATCH:
                tasks[self._inbox.get(block=False)] = None
        except queue.Empty:
            pass
        self._queued.difference_update(tasks)
        return list(tasks)

    def finish(self, tasks: Sequence[str]) -> list[str]:
        """End those of the tasks that are complete. Return their ids. Raises Unreachable."""
        if not tasks or not self.complete():
            return []
        known = self.registry.tasks.named(tasks, TASK_VIEW)
        views = [view for view in map(self._closed_if_forced, known) if _is_done(view)]
        records = [self._tombstone(view) for view in views]
        if records:
            self.registry.control.apply_all(list(zip(self.control.append_many(records), records, strict=True)))
        for view, record in zip(views, records, strict=True):
            _log.info("task %s ended: %s, %d of %d sent", view.id, record.state, view.targets.sent, view.targets.total)
        return [view.id for view in views]

    def _closed_if_forced(self, view: TaskView) -> TaskView:
        """Return the view; if the task's end is forced, with an outcome for its open targets."""
        if view.id not in self._forced:
            return view
        self._forced.discard(view.id)
        counts, still_open = view.targets, max(0, view.targets.pending)
        if still_open:
            _log.warning(
                "task %s was closed by an operator and ends without the outcomes of %d targets", view.id, still_open
            )
        closed = replace(counts, cancelled=counts.cancelled + still_open, pending=0)
        return replace(view, closed=True, targets=closed)

    def _tombstone(self, view: TaskView) -> Finished:
        counts, end = view.targets, end_of(view)
        by_outcome = [counts.sent, counts.invalid, counts.failed, counts.expired, counts.cancelled]
        return Finished(
            format=FORMAT,
            task=view.id,
            state=end.state,
            counts=by_outcome,
            at_ms=self.clock.wall_ms(),
            reason=end.reason,
        )


def _is_done(view: TaskView) -> bool:
    return (view.sealed or view.closed) and not view.ended and not view.targets.pending
