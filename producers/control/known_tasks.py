"""Read tasks from the view in Redis, and tell a task that does not exist from one the view does not know yet."""

from collections.abc import Callable
from typing import TypeVar

from backends.redis.epochs import REBUILD_STEP, Epochs
from backends.redis.registry.tasks import TaskTable
from dispatcher.model.errors import NotFound, NotReady, Unreachable
from dispatcher.model.tier import MILLI
from dispatcher.model.view import TargetCounts, TaskView
from dispatcher.wire.submission import Submission

T = TypeVar("T")
_SAME_IN_RECORD = ("app", "channel", "cap", "chunk", "expected_targets", "created_ms", "start_ms", "expires_ms")
"""Fields of a task's view that its record has by the same name."""


class KnownTasks:
    """Reads one task at a time."""

    def __init__(self, tasks: TaskTable, epochs: Epochs) -> None:
        self._tasks = tasks
        self._epochs = epochs

    def task(self, task: str) -> TaskView:
        """Return the task. Raises NotFound; NotReady if the view is empty or being rebuilt and lacks the task;
        Unreachable."""
        view = self._tasks.task(task)
        if view is not None:
            return view
        if self._epochs.ready():
            raise no_such_task(task)
        raise NotReady(f"The view in Redis does not know task {task}, and is not complete.", REBUILD_STEP)


def without_redis(read: Callable[[], T], other: Callable[[], T]) -> T:
    """Return what the view in Redis says, or the other value if Redis is gone."""
    try:
        return read()
    except Unreachable:
        return other()


def as_stored(known: Submission) -> TaskView:
    """Return a task as the control topic has it, without what only the view knows: outcomes, rate, present weight."""
    record = known.record
    same = {name: getattr(record, name) for name in _SAME_IN_RECORD}
    targets = TargetCounts(total=known.published, pending=known.published)
    return TaskView(
        **same, id=record.task, tier=str(record.tier), state=known.state, sealed=known.sealed, targets=targets,
        weight=record.weight / MILLI, lane=known.lane, shared=known.shared, finished_ms=int(known.ended),
        rate=0.0, eta_s=None, refused=0, first_outcome_ms=0,
    )  # fmt: skip


def no_such_task(task: str) -> NotFound:
    """Return the error for an unknown id."""
    return NotFound(f"There is no task {task}.", "`fairlane task list` shows all; ended ones are kept for days.")
