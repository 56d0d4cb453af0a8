"""Tasks at the desk: submit, read, change and explain them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cached_property
from typing import Any, NamedTuple

from pydantic import JsonValue

from backends.redis.registry.task_rows import TASK_TIMES, TaskTimes
from backends.system_clock import SystemClock
from dispatcher.analysis.situation import Situation
from dispatcher.analysis.what_if import FinishChange, effects
from dispatcher.analysis.why import Why
from dispatcher.model.errors import AudienceMismatch, InvalidInput, NotFound, NotReady, TaskEnded, Unreachable
from dispatcher.model.task import PushTask, Target
from dispatcher.model.view import TaskView
from producers.control.controls import Cancelled, Edit
from producers.control.foresight import explain
from producers.control.steering import BulkResult, Plan
from producers.control.task_changes import Changes, TaskFilter
from producers.desk.acting import Acting
from producers.desk.guard import action
from producers.desk.scoped_ids import id_of_key
from producers.outcomes.record import ReasonGroup, TargetRecord
from producers.submit.cutter import Slab, SlabSource
from producers.submit.intake import AudienceRules
from producers.submit.preview import Preview, preview
from producers.submit.report import SubmitResult


class Accepted(NamedTuple):
    """A submission as its client sees it."""

    app: str
    channel: str
    result: SubmitResult
    is_replayed: bool
    """Whether its whole audience was stored before this call, or by another one meanwhile."""


class BulkPreview(NamedTuple):
    """The effects that a change of many tasks would have."""

    plan: Plan
    effects: list[FinishChange]
    """Tasks that would end at another time, the most affected first; for a principal of one app, those of the app."""
    moves_others: bool
    """Whether it would move tasks of other apps."""


class TaskDesk(Acting):
    """Tasks of a principal. Raises as PushClient does."""

    # ------------------------------------------------------------------------------ submissions

    @action("tasks.submit")
    def submit(
        self,
        fields: Mapping[str, Any],
        targets: Sequence[Target | str] | SlabSource,
        rules: AudienceRules = AudienceRules(),
        idempotency_key: str = "",
    ) -> Accepted:
        """Submit a task, or continue or verify its submission. fields: of PushTask. Raises as PushClient.submit."""
        task = self._task(fields, idempotency_key)
        known = self._known(task.id)
        try:
            handle = self._client.submit(task, self._bounded(targets), **asdict(rules))
        except AudienceMismatch:
            if task.id is None or self._known(task.id) is not None:
                raise
            cause = f"Task {self._ids.shown(task.id)} was submitted before as another task."  # of another app
            raise AudienceMismatch(cause, "Choose another id.") from None
        result = handle.result
        assert result is not None  # submit has waited for it
        was_sealed = known is not None and known.sealed
        is_replayed = was_sealed or result.resumed_from == result.envelopes > 0
        return Accepted(task.app, task.channel, self._without_prefix(result), is_replayed)

    @action("tasks.preview")
    def preview(self, fields: Mapping[str, Any], targets: Sequence[Target | str] | SlabSource, samples: int) -> Preview:
        """Return what would be accepted of these targets, and the requests that would leave. Nothing is stored."""
        made = preview(self._task(fields, ""), self._bounded(targets), SystemClock(), samples=samples)
        return made._replace(result=self._without_prefix(made.result))

    def _task(self, fields: Mapping[str, Any], idempotency_key: str) -> PushTask:
        """Return the task with its internal id. Raises InvalidInput, also for a task beyond the app's policy."""
        app = self.principal.app or str(fields.get("app", ""))
        if fields.get("app", app) != app:
            raise InvalidInput(f"app: is {fields['app']!r}; this key is for app {app}.", "Leave it out.")
        id_ = fields.get("id")
        if id_ is None and idempotency_key:
            id_ = id_of_key(app, idempotency_key)
        given = {**fields, "app": app}
        if isinstance(id_, str):
            given["id"] = self._ids.new(id_)
        task = PushTask.model_validate(given)
        self._check_policy(task)
        return task

    def _known(self, inside: str | None) -> TaskView | None:
        """Return the principal's task of this internal id, if there is one."""
        with suppress(NotFound, NotReady):
            return None if inside is None else self._own(self._ids.shown(inside))
        return None

    def _bounded(self, targets: Sequence[Target | str] | SlabSource) -> Sequence[Target | str] | SlabSource:
        """Return an audience that ends with InvalidInput beyond the app's policy."""
        if isinstance(targets, SlabSource):
            return _Bounded(targets, lambda count: self._check(audience=count))
        self._check(audience=len(targets))
        return targets

    # ------------------------------------------------------------------------------ tasks

    @action("tasks.show")
    def task(self, id_: str) -> TaskView:
        """Return a task in its current state."""
        return self._foreseen(self._own(id_))

    @action("tasks.show")
    def task_and_message(self, id_: str) -> tuple[TaskView, dict[str, JsonValue], float]:
        """Return a task in its current state, its present message, which is empty once it has ended, and 0.

        While the view does not answer: the task as the board has it, no message, and the board's age in seconds.
        """
        try:
            view, message = self._all_own([id_], self._connection.known_tasks.with_messages)[0]
        except (Unreachable, NotReady):
            known = self._board.task(self._inside(id_))
            if known is None or not self._is_own(known.app):
                raise
            return self._shown(known), {}, self._board.age().age_s
        return self._foreseen(view), message, 0.0

    def _foreseen(self, view: TaskView) -> TaskView:
        return self._shown(self._board.foreseen(view))

    @action("tasks.set")
    def change(
        self, id_: str, changes: Changes | None, message: Mapping[str, Any] | str | None
    ) -> tuple[TaskView, Edit | None]:
        """Change a task's message, then its controls. Return the task, and the edit of its message."""
        inside = self._own(id_).id
        if changes is not None:
            self._check(tier=changes.tier, weight=changes.weight)
        edit = None if message is None else self._client.edit_message(inside, message)
        if changes is not None:
            plan = self._client.plan_many(TaskFilter(ids=(inside,)), changes)
            for reason in plan.refused.values():
                raise TaskEnded(reason)
            for reason in self._client.set_many(plan).failed.values():
                raise Unreachable(reason)
        return self._foreseen(self._own(id_)), edit

    @action("tasks.cancel")
    def cancel(self, id_: str, wait_s: float) -> Cancelled:
        """Cancel a task, and wait up to some seconds for its targets in flight."""
        return self._client.task(self._own(id_).id).cancel(wait_s)

    @action("tasks.why")
    def why(self, id_: str) -> Why:
        """Return where a task's time went. A principal of one app sees kinds of causes, without names of others."""
        return self._explained(self._all_own([id_], self._connection.known_tasks.with_times))[0]._replace(task=id_)

    @action("tasks.why")
    def whys(self, ids: Sequence[str]) -> list[Why]:
        """Return the same of several tasks, without those that are not known."""
        found = self._connection.registry.tasks.named(list(map(self._inside, ids)), TASK_TIMES)
        return self._explained([each for each in found if self._is_own(each.task.app)])

    def _explained(self, tasks: Sequence[TaskTimes]) -> list[Why]:
        found = explain(tasks, self._connection.registry, self._connection.workers)
        whys = [why._replace(task=self._ids.shown(why.task)) for why in found]
        return [_without_names(why) for why in whys] if self.principal.app else whys

    @action("tasks.failures")
    def failures(self, id_: str) -> Iterator[TargetRecord]:
        """Yield a task's failed targets so far."""
        return map(self._record, self._client.task(self._own(id_).id).failures())

    @action("tasks.failures")
    def failures_by_reason(self, id_: str) -> list[ReasonGroup]:
        """Return the number of a task's failed targets by reason."""
        return list(map(self._record, self._client.task(self._own(id_).id).failures_by_reason()))

    @action("tasks.outcomes")
    def outcomes(self, id_: str, target: str | None) -> Iterator[TargetRecord]:
        """Yield the final outcomes of a task's targets so far, or of one target."""
        return map(self._record, self._client.task(self._own(id_).id).outcomes(target))

    @action("tasks.change")
    def change_many(self, tasks: TaskFilter, changes: Changes) -> BulkResult:
        """Change all live tasks that a filter selects. Raises InvalidInput for an empty filter."""
        result = self._client.set_many(self._plan(tasks, changes))
        return replace(result, changed=tuple(map(self._ids.shown, result.changed)), failed=self._reasons(result.failed))

    @action("tasks.change")
    def preview_change(self, tasks: TaskFilter, changes: Changes, *, foresee: bool = True) -> BulkPreview:
        """Return what `change_many` would do, and which tasks would end at another time; foresee: False leaves these
        out, which take seconds with 100,000 live tasks."""
        plan = self._plan(tasks, changes)
        moved = self._moved(plan) if foresee and plan.changing else []
        own = [effect._replace(task=self._ids.shown(effect.task)) for effect in moved if self._is_own(effect.app)]
        steps = tuple(replace(step, task=self._shown(step.task)) for step in plan.steps)
        return BulkPreview(Plan(steps, self._reasons(plan.refused)), own, len(own) < len(moved))

    @cached_property
    def _before(self) -> tuple[Situation, dict[str, float | None]]:
        """The service, and when its tasks end, as far as this request is concerned."""
        situation = self._situation()
        return situation, situation.done_s()

    def _moved(self, plan: Plan) -> list[FinishChange]:
        before, was = self._before
        return effects(before, before._replace(tasks=plan.applied(before.tasks)), was)

    def _reasons(self, reasons: Mapping[str, str]) -> dict[str, str]:
        shown = {task: self._ids.shown(task) for task in reasons}
        return {shown[task]: self._ids.in_text(reason, {task: shown[task]}) for task, reason in reasons.items()}

    def _plan(self, tasks: TaskFilter, changes: Changes) -> Plan:
        if tasks.names_all:  # before it is clipped: an app's key would change all tasks of the app
            raise InvalidInput("The filter is empty, so it would select all tasks.", "Give it ids, a tier or a state.")
        self._check(tier=changes.tier, weight=changes.weight)
        ids = tuple(task.id for task in self._all_own(tasks.ids, self._connection.known_tasks.tasks))
        clipped = replace(tasks, ids=ids, app=self._app(tasks.app), id_prefix=self._prefix(tasks.id_prefix) or None)
        plan = self._client.plan_many(clipped, changes)
        prefix = tasks.id_prefix or ""
        return replace(plan, steps=tuple(s for s in plan.steps if self._ids.shown(s.task.id).startswith(prefix)))

    def _without_prefix(self, result: SubmitResult) -> SubmitResult:
        return replace(result, task=self._ids.shown(result.task))


class _Bounded:
    """The slabs of an audience that comes over time. check: gets the number of targets so far, and raises if it is too
    large."""

    waits = True

    def __init__(self, source: SlabSource, check: Callable[[int], None]) -> None:
        self._source = source
        self._check = check

    def slabs(self, unit: int) -> Iterator[Slab]:
        count = 0
        for slab in self._source.slabs(unit):
            count += len(slab.items)
            self._check(count)
            yield slab


def _without_names(why: Why) -> Why:
    """Return where a task's time went, without names of other apps, channels and workers."""
    parts = [part._replace(cause=_kind_of(part.cause)) for part in why.parts]
    return why._replace(parts=parts, last=_kind_of(why.last), unrecorded=[])


def _kind_of(cause: str) -> str:
    """Return a cause without the name of an app, channel or quota group."""
    return cause.partition("/")[0]
