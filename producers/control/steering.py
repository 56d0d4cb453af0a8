"""Bulk changes: find tasks by a filter, preview the change, apply it in batches of one round trip each."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol, TypeVar

from dispatcher.model.errors import FairlaneError, InvalidInput
from dispatcher.model.service_settings import Cap
from dispatcher.model.tier import MILLI
from dispatcher.model.view import TaskView
from producers.control.controls import changes_of, leaves_shared_lane, store
from producers.control.task_changes import Changes, TaskFilter
from producers.ports import Services

T = TypeVar("T")
_BATCH = 500
"""The number of tasks changed in one round trip; a batch takes some ms of Redis' time."""
_LANE_MAKERS = 16
_ENDS = {"cancelled": "cancelled", "stopped": "failed", "close": "failed"}
"""Maps each field that ends a task to the state the task ends in."""


class TaskReader(Protocol):
    def task(self, task: str) -> TaskView:
        """Return the task. Raises NotFound, NotReady, Unreachable."""
        ...


class LiveViews(Protocol):
    """The part of the registry that is needed to find tasks. Raises Unreachable."""

    def tasks_by_id(self, tasks: Sequence[str]) -> list[TaskView]: ...

    def live_views(self) -> list[TaskView]: ...


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """One task and the fields to change. No fields: the task already has the requested values."""

    task: TaskView
    """The task in its current state."""
    fields: Mapping[str, str]
    """The new values, as they will be stored."""

    @property
    def changes(self) -> dict[str, tuple[str, str]]:
        """Return each field's value before and after, as `fairlane task set` takes them. An end changes the `state`."""
        return {
            "state" if name in _ENDS else name: (_before(self.task, name), _after(name, text))
            for name, text in self.fields.items()
        }

    @property
    def leaves_shared_lane(self) -> bool:
        return self.task.shared and leaves_shared_lane(self.fields)


def _before(task: TaskView, field: str) -> str:
    shown = {
        "weight": f"{task.weight:g}",
        "tier": task.tier,
        "cap": Cap(task.cap, task.cap_burst).text if task.cap else "none",
        "paused": "yes" if task.state == "paused" else "no",
    }
    return shown.get(field, task.state)


def _after(field: str, text: str) -> str:
    match field:
        case "weight":
            return f"{int(text) / MILLI:g}"
        case "cap":
            return "none" if text == "0" else text
        case "paused":
            return "yes" if text == "1" else "no"
    return _ENDS.get(field, text)


@dataclass(frozen=True, slots=True)
class Plan:
    """The changes that `set_many` would make now."""

    steps: tuple[PlannedChange, ...]
    """The tasks that the filter selects, with their changes."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Maps a task's id to the reason why it cannot be changed."""

    @property
    def changing(self) -> list[PlannedChange]:
        return [step for step in self.steps if step.fields]


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


Progress = Callable[[int, int], None]
"""Called with the number of tasks changed and the total."""


class BulkChanges:
    """Plans and makes bulk changes. services: called on first use, since it connects."""

    def __init__(self, services: Callable[[], Services], views: LiveViews, known: TaskReader) -> None:
        self._services = services
        self._views = views
        self._known = known

    def plan(self, tasks: TaskFilter, changes: Changes) -> Plan:
        """Return the changes to be made.

        Raises InvalidInput, also for an empty filter; NotFound for an unknown id (NotReady while the view is being
        rebuilt); Unreachable.
        """
        changes.fields()
        if tasks.names_all:
            raise InvalidInput("The filter is empty, so it would select all tasks.", "Give it ids, or an app.")
        found, refused = self._find(tasks, changes)
        steps = [PlannedChange(task, changes.needed(task)) for task in found]
        steps += [PlannedChange(task, {}) for task in refused if changes.is_done(task)]
        refused = [task for task in refused if not changes.is_done(task)]
        why = {task.id: f"Task {task.id} is {task.state} and accepts no more changes." for task in refused}
        return Plan(tuple(steps), why)

    def carry_out(self, plan: Plan, on_progress: Progress | None = None) -> BulkResult:
        """Change the tasks of a plan. A server that fails or refuses midway raises nothing: the result lists the
        failures.

        The changes come first, the lanes of tasks that leave a shared one after them: a broker creates some hundred
        topics a second, and a pause should not wait for that. A worker that needs a missing lane waits for it; one that
        moves an envelope there creates it.
        """
        steps, changed = plan.changing, list[str]()
        failed = dict(plan.refused)
        for batch in _batches(steps):
            try:
                self._store(batch)
            except FairlaneError as error:
                failed |= {step.task.id: str(error) for step in steps[len(changed) :]}
                break
            changed += [step.task.id for step in batch]
            if on_progress is not None:
                on_progress(len(changed), len(steps))
        leaving = [step.task.id for step in steps[: len(changed)] if step.leaves_shared_lane]
        self._create_lanes(leaving)
        return BulkResult(tuple(changed), len(plan.steps) - len(steps), failed, len(leaving))

    def _find(self, wanted: TaskFilter, changes: Changes) -> tuple[list[TaskView], list[TaskView]]:
        """Return the tasks that take the changes, and the named tasks that do not."""
        if not wanted.ids:
            views = self._views.live_views()
            return [view for view in views if changes.takes(view) and wanted.takes(view)], []
        views = [view for batch in _batches(list(dict.fromkeys(wanted.ids))) for view in self._views.tasks_by_id(batch)]
        views += [self._known.task(task) for task in sorted(set(wanted.ids) - {view.id for view in views})]
        matching = [view for view in views if wanted.takes(view)]
        refused = [view for view in matching if not changes.takes(view)]
        return [view for view in matching if changes.takes(view)], refused

    def _store(self, batch: Sequence[PlannedChange]) -> None:
        services = self._services()
        lanes = {step.task.id: services.topics.own_lane(step.task.id) for step in batch if step.leaves_shared_lane}
        records = [changes_of(services, step.task.id, step.fields, lanes.get(step.task.id, "")) for step in batch]
        store(services, [record for of_task in records for record in of_task])

    def _create_lanes(self, tasks: Sequence[str]) -> None:
        if not tasks:
            return
        services = self._services()
        with ThreadPoolExecutor(_LANE_MAKERS, thread_name_prefix="lane") as pool:
            made = [pool.submit(services.lanes.create, services.topics.own_lane(task), 0) for task in tasks]
            for each in made:
                try:
                    each.result()
                except FairlaneError:  # workers create what is missing when they need it
                    pool.shutdown(wait=True, cancel_futures=True)
                    return


def _batches(items: Sequence[T]) -> Iterator[list[T]]:
    left: Iterable[T] = iter(items)
    while batch := list(islice(left, _BATCH)):
        yield batch
