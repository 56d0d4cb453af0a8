"""Read tasks from the view in Redis, and tell a task that does not exist from one the view does not know yet."""

from backends.redis.epochs import REBUILD_STEP, Epochs
from backends.redis.registry.tasks import TaskTable
from dispatcher.model.errors import NotFound, NotReady
from dispatcher.model.view import TaskView


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


def no_such_task(task: str) -> NotFound:
    """Return the error for an unknown id."""
    return NotFound(f"There is no task {task}.", "`fairlane task list` shows all; ended ones are kept for days.")
