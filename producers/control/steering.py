"""Many tasks changed at once: found by a filter, shown before, changed in batches of one round trip each."""

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
"""Tasks changed in one round trip: some ms of Redis' time."""
_LANE_MAKERS = 16
_ENDS = {"cancelled": "cancelled", "stopped": "failed", "close": "failed"}
"""Fields that end a task -> its state then."""


class TaskReader(Protocol):
    def task(self, task: str) -> TaskView:
        """Raises NotFound, NotReady, Unreachable."""
        ...


class LiveViews(Protocol):
    """The registry, as far as finding tasks needs it. Raises Unreachable."""

    def tasks_by_id(self, tasks: Sequence[str]) -> list[TaskView]: ...

    def live_views(self) -> list[TaskView]: ...


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """One task and the fields that are to change. Empty: it is as wished already."""

    task: TaskView
    """As it is now."""
    fields: Mapping[str, str]
    """As they will be stored."""

    @property
    def changes(self) -> dict[str, tuple[str, str]]:
        """Field -> its value before and after, as `fairlane task set` takes them; an end changes the `state`."""
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
    """What `set_many` would do now."""

    steps: tuple[PlannedChange, ...]
    """The tasks that the filter takes, and what would change."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Task id -> why it takes no change."""

    @property
    def changing(self) -> list[PlannedChange]:
        return [step for step in self.steps if step.fields]


@dataclass(frozen=True, slots=True)
class BulkResult:
    """What `set_many` did."""

    changed: tuple[str, ...]
    """Ids of the tasks that were changed."""
    unchanged: int = 0
    """How many were as wished already."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Task id -> why it was not changed. Once that is fixed, the same call again changes the rest."""
    lanes: int = 0
    """How many tasks left a shared lane."""


Progress = Callable[[int, int], None]
"""Told how many tasks are changed, and of how many."""


class BulkChanges:
    """services: called when first needed, since it connects."""

    def __init__(self, services: Callable[[], Services], views: LiveViews, known: TaskReader) -> None:
        self._services = services
        self._views = views
        self._known = known

    def plan(self, tasks: TaskFilter, changes: Changes) -> Plan:
        """What would change. Raises InvalidInput, for a filter that names nothing too; NotFound (or NotReady, while the
        view is rebuilt) for an id that is not known; Unreachable."""
        changes.fields()
        if tasks.names_all:
            raise InvalidInput("The filter names no tasks, and an empty one would take all.", "Give it ids, or an app.")
        found, refused = self._find(tasks, changes)
        steps = [PlannedChange(task, changes.needed(task)) for task in found]
        steps += [PlannedChange(task, {}) for task in refused if changes.is_done(task)]
        refused = [task for task in refused if not changes.is_done(task)]
        why = {task.id: f"Task {task.id} is {task.state} and takes no more changes." for task in refused}
        return Plan(tuple(steps), why)

    def carry_out(self, plan: Plan, on_progress: Progress | None = None) -> BulkResult:
        """Changes the tasks of a plan. Never raises for a server that is gone, or refuses, in the middle: it says what
        failed.

        The changes come first and the lanes of tasks that leave a shared one after them, since a broker creates some
        hundred topics a second and a pause should not wait for that; a worker that meets a lane that is missing waits
        for it, and one that moves an envelope there creates it.
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
        """Those that take the changes, and those named that do not."""
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
                except FairlaneError:  # workers make what is still missing, when they need it
                    pool.shutdown(wait=True, cancel_futures=True)
                    return


def _batches(items: Sequence[T]) -> Iterator[list[T]]:
    left: Iterable[T] = iter(items)
    while batch := list(islice(left, _BATCH)):
        yield batch
