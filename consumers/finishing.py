"""Ends tasks whose targets all have an outcome: the tombstone goes to the control topic first, then into the view."""

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from dispatcher.clock import Clock
from dispatcher.control import FORMAT, ControlRecord, Finished
from dispatcher.errors import Unreachable
from dispatcher.ports import ControlLog
from dispatcher.view import TargetCounts, TaskView

_log = logging.getLogger(__name__)


class TaskTable(Protocol):
    """The registry, as finishing needs it. All raise Unreachable."""

    def task(self, task: str) -> TaskView | None: ...

    def apply(self, position: str, record: ControlRecord) -> Sequence[str]: ...


def end_state(counts: TargetCounts, cancel_asked: bool) -> str:
    """What a task whose targets all have an outcome is called."""
    if cancel_asked and counts.cancelled:
        return "cancelled"
    return "expired" if counts.expired else "completed"


class Finisher:
    """Takes the ids of complete tasks from the folds (and from the housekeeper, for those a crash left) and ends them.

    Ending twice is harmless: the first `Finished` wins.
    """

    def __init__(
        self, tasks: TaskTable, complete: Callable[[], bool], control: ControlLog, clock: Clock, retry_s: float = 0.5
    ) -> None:
        """complete: whether the view is; one that is being rebuilt may not know yet that a task has ended long ago."""
        self._tasks = tasks
        self._complete = complete
        self._control = control
        self._clock = clock
        self._retry_s = retry_s
        self._inbox: queue.SimpleQueue[str] = queue.SimpleQueue()

    def take(self, tasks: Sequence[str]) -> None:
        """From any thread; returns at once."""
        for task in tasks:
            self._inbox.put(task)

    def run(self, stop: threading.Event) -> None:
        """Returns when `stop` is set. What is not ended by then, the next housekeeper finds."""
        while not stop.is_set():
            try:
                task = self._inbox.get(timeout=0.2)
            except queue.Empty:
                continue
            try:
                self.finish(task)
            except Unreachable as error:
                _log.debug("task %s is ended later: %s", task, error)
                self._inbox.put(task)
                stop.wait(self._retry_s)

    def finish(self, task: str) -> bool:
        """True if the task was ended here. Raises Unreachable."""
        if not self._complete():
            return False
        view = self._tasks.task(task)
        if view is None or view.ended or not view.sealed or view.targets.pending:
            return False
        counts = view.targets
        state = end_state(counts, cancel_asked=view.state == "cancelled")
        by_outcome = [counts.sent, counts.invalid, counts.failed, counts.expired, counts.cancelled]
        record = Finished(FORMAT, task, state, by_outcome, self._clock.wall_ms())
        self._tasks.apply(self._control.append(record), record)
        _log.info("task %s ended: %s, %d of %d sent", task, state, counts.sent, counts.total)
        return True
