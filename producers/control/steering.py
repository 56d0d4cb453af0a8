"""Bulk changes: find tasks by a filter, preview the change, and make it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from backends.redis.registry.task_rows import TASK_VIEW
from backends.redis.registry.tasks import TaskTable
from dispatcher.model.errors import FairlaneError, InvalidInput, NotReady, Unreachable
from dispatcher.model.task_control import Control
from dispatcher.model.view import TaskView
from producers.control.change import TaskChange, change_tasks
from producers.control.known_tasks import KnownTasks, as_stored, no_such_task
from producers.control.task_changes import Changes, TaskFilter
from producers.ports import Services


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """One task and the controls to change. No controls: the task already has the requested values."""

    task: TaskView
    """The task in its current state."""
    controls: tuple[Control, ...]
    """The new values."""

    @property
    def after(self) -> TaskView:
        """The task after the change."""
        return reduce(lambda task, control: control.applied(task), self.controls, self.task)

    @property
    def changes(self) -> dict[str, tuple[str, str]]:
        """Return each field's value before and after, as `fairlane task set` takes them. An end changes the `state`."""
        after = self.after
        return {
            "state" if control.end else control.name: (control.shown(self.task), control.shown(after))
            for control in self.controls
        }

    @property
    def stored(self) -> TaskChange:
        """The change as it is carried out."""
        return TaskChange(self.task.id, self.controls, self.task.shared)


@dataclass(frozen=True, slots=True)
class Plan:
    """The changes that `set_many` would make now."""

    steps: tuple[PlannedChange, ...]
    """The tasks that the filter selects, with their changes."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Maps a task's id to the reason why it cannot be changed."""

    @property
    def changing(self) -> list[PlannedChange]:
        return [step for step in self.steps if step.controls]

    def applied(self, tasks: Iterable[TaskView]) -> list[TaskView]:
        """Return tasks as they would be after the changes, whatever was sent of them meanwhile."""
        steps = {step.task.id: step for step in self.changing}
        return [replace(steps[task.id], task=task).after if task.id in steps else task for task in tasks]


@dataclass(frozen=True, slots=True)
class BulkResult:
    """The result of `set_many`."""

    changed: tuple[str, ...]
    """Ids of the tasks that were changed."""
    unchanged: int = 0
    """How many tasks already had the requested values."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Maps a task's id to the reason why it was not changed. Once that is fixed, the same call again changes the
    rest."""
    lanes: int = 0
    """How many tasks left a shared lane."""
    lacks_redis: str = ""
    """Why the changes take effect only when Redis is back; empty if they are in force."""


Progress = Callable[[int, int], None]
"""Called with the number of tasks changed and the total."""


class BulkChanges:
    """Plans and makes bulk changes. services: called on first use, since it connects."""

    def __init__(self, services: Callable[[], Services], tasks: TaskTable, known: KnownTasks) -> None:
        self._services = services
        self._tasks = tasks
        self._known = known

    def plan(self, tasks: TaskFilter, changes: Changes) -> Plan:
        """Return the changes to be made.

        Raises InvalidInput, also for an empty filter; NotFound for an unknown id (NotReady while the view is being
        rebuilt); Unreachable. Tasks that are named by their ids alone are found without Redis, too.
        """
        controls = changes.controls()
        if tasks.names_all:
            raise InvalidInput("The filter is empty, so it would select all tasks.", "Give it ids, or an app.")
        try:
            accepting, refused = self._find(tasks, changes)
            steps = [PlannedChange(task, tuple(one for one in controls if not one.is_set(task))) for task in accepting]
        except (NotReady, Unreachable) as error:
            accepting, refused = self._stored(tasks, changes, error)
            steps = [PlannedChange(task, controls) for task in accepting]
        steps += [PlannedChange(task, ()) for task in refused if changes.is_done(task)]
        refused = [task for task in refused if not changes.is_done(task)]
        why = {task.id: f"Task {task.id} is {task.state} and accepts no more changes." for task in refused}
        return Plan(tuple(steps), why)

    def carry_out(self, plan: Plan, on_progress: Progress | None = None) -> BulkResult:
        """Change the tasks of a plan. A server that fails or refuses midway raises nothing: the result lists the
        failures.
        """
        changes, changed, failed, lacks_redis = [step.stored for step in plan.changing], 0, dict(plan.refused), ""

        def stored(count: int) -> None:
            nonlocal changed
            changed = count
            if on_progress is not None:
                on_progress(count, len(changes))

        try:
            if changes:
                lacks_redis = change_tasks(self._services(), changes, stored).lacks_redis
        except FairlaneError as error:
            failed |= {change.task: str(error) for change in changes[changed:]}
        leaving = sum(change.leaves_shared_lane for change in changes[:changed])
        ids = tuple(change.task for change in changes[:changed])
        return BulkResult(ids, len(plan.steps) - len(changes), failed, leaving, lacks_redis)

    def _find(self, filter_: TaskFilter, changes: Changes) -> tuple[list[TaskView], list[TaskView]]:
        """Return the tasks that take the changes, and the named tasks that do not."""
        if not filter_.ids:
            views = self._tasks.live(TASK_VIEW)
            return [view for view in views if changes.takes(view) and filter_.takes(view)], []
        ids = list(dict.fromkeys(filter_.ids))
        views = self._tasks.named(ids, TASK_VIEW)
        views += [self._known.task(task) for task in sorted(set(filter_.ids) - {view.id for view in views})]
        others = replace(filter_, ids=())  # each view would look through all ids
        return _divided([view for view in views if others.takes(view)], changes)

    def _stored(
        self, filter_: TaskFilter, changes: Changes, error: FairlaneError
    ) -> tuple[list[TaskView], list[TaskView]]:
        """Return the same for tasks that are named by their ids, as the control topic has them: Redis is gone, or does
        not know them yet."""
        if filter_ != TaskFilter(ids=filter_.ids):
            raise type(error)(
                error.cause, f"{error.next_step} Without it tasks are found by their ids only."
            ) from error
        submissions = self._services().known.stored(filter_.ids)
        for task in filter_.ids:
            if task not in submissions:
                raise no_such_task(task)
        return _divided([as_stored(submissions[task]) for task in dict.fromkeys(filter_.ids)], changes)


def _divided(views: Sequence[TaskView], changes: Changes) -> tuple[list[TaskView], list[TaskView]]:
    return [view for view in views if changes.takes(view)], [view for view in views if not changes.takes(view)]
