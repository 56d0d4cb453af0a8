"""Read tasks from the view in Redis, and tell a task that does not exist from one the view does not know yet."""

from backends.redis.epochs import REBUILD_STEP, Epochs
from backends.redis.registry.tasks import TaskTable
from dispatcher.model.errors import NotFound, NotReady
from dispatcher.model.tier import MILLI
from dispatcher.model.view import TargetCounts, TaskView
from dispatcher.wire.submission import Submission


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


def as_stored(known: Submission) -> TaskView:
    """Return a task as the control topic has it, without what only the view knows: outcomes, rate, present weight."""
    record, targets = known.record, TargetCounts(total=known.published, pending=known.published)
    return TaskView(
        id=record.task,
        app=record.app,
        tier=str(record.tier),
        channel=record.channel,
        state=known.state,
        sealed=known.sealed,
        weight=record.weight / MILLI,
        cap=record.cap,
        targets=targets,
        rate=0.0,
        eta_s=None,
        refused=0,
        lane=known.lane,
        shared=known.shared,
        chunk=record.chunk,
        expected_targets=record.expected_targets,
        created_ms=record.created_ms,
        start_ms=record.start_ms,
        expires_ms=record.expires_ms,
        first_outcome_ms=0,
        finished_ms=int(known.ended),
    )


def no_such_task(task: str) -> NotFound:
    """Return the error for an unknown id."""
    return NotFound(f"There is no task {task}.", "`fairlane task list` shows all; ended ones are kept for days.")
