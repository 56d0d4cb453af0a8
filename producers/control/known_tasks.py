"""Read tasks from the view in Redis, and tell a task that does not exist from one the view does not know yet."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from backends.redis.epochs import REBUILD_STEP, Epochs
from backends.redis.registry.task_rows import TASK_AND_MESSAGE, TASK_TIMES, TASK_VIEW, TaskTimes
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
        """Return the task. Raises as `tasks`."""
        return self.tasks([task])[0]

    def tasks(self, tasks: Sequence[str], app: str = "") -> list[TaskView]:
        """Return these tasks, in this order. app: a task of another app does not exist; empty: of any app.

        Raises NotFound; NotReady if the view is empty or being rebuilt and lacks a task; Unreachable.
        """
        views = self._tasks.named(tasks, TASK_VIEW)
        return self._in_order(tasks, {view.id: view for view in views if app in ("", view.app)})

    def with_messages(self, tasks: Sequence[str], app: str = "") -> list[tuple[TaskView, dict[str, Any]]]:
        """Return these tasks with their present messages, which are empty once they have ended. Raises as `tasks`."""
        pairs = self._tasks.named(tasks, TASK_AND_MESSAGE)
        return self._in_order(tasks, {pair[0].id: pair for pair in pairs if app in ("", pair[0].app)})

    def with_times(self, tasks: Sequence[str], app: str = "") -> list[TaskTimes]:
        """Return these tasks with what is known of their time. Raises as `tasks`."""
        times = self._tasks.named(tasks, TASK_TIMES)
        return self._in_order(tasks, {each.task.id: each for each in times if app in ("", each.task.app)})

    def _in_order(self, tasks: Sequence[str], found: Mapping[str, T]) -> list[T]:
        for task in tasks:
            if task not in found:
                if self._epochs.ready():
                    raise no_such_task(task)
                raise NotReady(f"The view in Redis does not know task {task}, and is not complete.", REBUILD_STEP)
        return [found[task] for task in tasks]


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
