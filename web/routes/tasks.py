"""Tasks over HTTP: submit, list, show, change, cancel, explain."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from dispatcher.model.errors import InvalidInput
from dispatcher.model.task import PushTask, Target
from fairlane.figures.rows import (
    ACCEPTED_FIELDS,
    BULK_FIELDS,
    FAILURE_FIELDS,
    OUTCOME_FIELDS,
    REASON_FIELDS,
    effect_fields,
    picked,
    plan_fields,
    preview_fields,
    task_fields,
)
from fairlane.figures.why_rows import why_fields
from producers.control.task_changes import Changes, TaskFilter
from producers.submit.cutter import SlabSource
from producers.submit.intake import AudienceRules
from web.routes.inputs import Input, Limit, Page, TaskSelection
from web.routes.ndjson import TargetIn, TaskLines
from web.routing import Answer, Call, Route, rows

MAX_TARGETS = 10_000
"""Targets in one body of JSON; larger audiences come as NDJSON."""
MAX_IDS = 10_000
"""Tasks that a filter may name."""
TASK_BYTES = 8 << 20
MAX_KEY_LENGTH = 255
MAX_WAIT_S = 20.0


Targets = Annotated[tuple[str | TargetIn, ...], Meta(max_length=MAX_TARGETS)]


class TaskIn(Input):
    """A task: the fields of a PushTask, and rules for its audience."""

    channel: str
    message: str | dict[str, Any]
    tier: str = "medium"
    app: str | UnsetType = UNSET
    """Left out by a key of one app."""
    id: str | UnsetType = UNSET
    allow_empty: bool = False
    first: int | None = None
    """Send to this number of targets only, until the task is resumed."""
    duplicates: str = "keep"
    chunk: int | UnsetType = UNSET
    weight: float | UnsetType = UNSET
    cap: int | UnsetType = UNSET
    cap_burst: int | UnsetType = UNSET
    ttl_s: float | str | UnsetType = UNSET
    start_at: str | UnsetType = UNSET
    hold_until_sealed: bool | UnsetType = UNSET
    max_attempts: int | UnsetType = UNSET
    retry_for_s: float | str | UnsetType = UNSET
    unknown: str | UnsetType = UNSET
    collapse: str | UnsetType = UNSET
    category: str | UnsetType = UNSET
    provider_ttl_s: float | str | UnsetType = UNSET
    options: dict[str, Any] | UnsetType = UNSET
    locales: dict[str, Any] | UnsetType = UNSET

    @property
    def task(self) -> dict[str, Any]:
        """The fields of its PushTask."""
        given = {name: getattr(self, name, UNSET) for name in PushTask.model_fields}
        return {name: value for name, value in given.items() if value is not UNSET}

    @property
    def rules(self) -> AudienceRules:
        """The rules for its audience. Raises InvalidInput."""
        return AudienceRules(self.allow_empty, self.duplicates, self.first)  # type: ignore[arg-type]  # it checks them


class NewTask(TaskIn):
    """A task with its audience."""

    targets: Targets = ()

    @property
    def audience(self) -> list[Target | str]:
        return [item if isinstance(item, str) else Target(item.target, item.vars) for item in self.targets]


class UploadedTask(TaskIn):
    """The first line of an upload: a task whose targets follow."""

    duplicates: Literal["keep", "count"] = "keep"
    """Removing them would take memory for each target."""
    expected_targets: int | UnsetType = UNSET
    """About how many follow; forecasts use it until the upload is complete."""


class TaskPreview(NewTask):
    """A task to be tried out. samples: the number of requests shown for each language."""

    samples: Annotated[int, Meta(ge=0, le=100)] = 3


class TaskPage(TaskSelection):
    """Which tasks are listed: live ones, or those in a state of ended ones."""

    limit: Limit = 100
    sort: str = "-created"
    """created, eta, rate, pending or id; with - before it: descending."""
    cursor: str | None = None


class Controls(Input):
    """New values; what is left out stays."""

    weight: float | None = None
    tier: str | None = None
    cap: int | str | None = None
    paused: bool | None = None

    def changes(self) -> Changes:
        """Return the changes of controls. Raises InvalidInput."""
        return Changes(**picked(self, [name for name in Changes.__slots__ if hasattr(self, name)]))


class TaskChanges(Controls):
    """New values; what is left out stays."""

    message: str | dict[str, Any] | None = None


class Filter(Input):
    """Selects live tasks; at least one field is needed."""

    ids: Annotated[tuple[str, ...], Meta(max_length=MAX_IDS)] = ()
    app: str | None = None
    tier: str | None = None
    channel: str | None = None
    state: str | None = None
    id_prefix: str | None = None


class ManyChanges(Controls, kw_only=True):
    """A change of many tasks."""

    filter: Filter
    cancelled: bool = False
    dry_run: bool = False


class Wait(Input):
    wait_s: Annotated[float, Meta(ge=0, le=MAX_WAIT_S)] = 0.0


class Failures(Page):
    by_reason: bool = False


class Outcomes(Page):
    target: str | None = None


def submit(call: Call) -> Answer:
    new: NewTask = call.body
    return _submitted(call, {**new.task, "expected_targets": len(new.targets)}, new.audience, new.rules)


def upload(call: Call) -> Answer:
    lines = TaskLines(call.body)
    new = lines.task(UploadedTask)
    return _submitted(call, new.task, lines, new.rules)


def _submitted(
    call: Call, fields: dict[str, Any], targets: Sequence[Target | str] | SlabSource, rules: AudienceRules
) -> Answer:
    key = call.headers.get("Idempotency-Key", "")
    if len(key) > MAX_KEY_LENGTH:
        raise InvalidInput(f"Idempotency-Key: has {len(key):,} characters; at most {MAX_KEY_LENGTH} are possible.")
    accepted = call.desks.tasks.submit(fields, targets, rules, key)
    result, is_replayed = accepted.result, accepted.is_replayed
    document = {"id": result.task, **picked(accepted, ("app", "channel")), **picked(result, ACCEPTED_FIELDS)}
    replayed = {"Idempotent-Replayed": "true"} if is_replayed else {}
    return Answer(document, 200 if is_replayed else 201, {"Location": f"/v1/tasks/{result.task}", **replayed})


def preview(call: Call) -> Answer:
    return Answer(preview_fields(call.desks.tasks.preview(call.body.task, call.body.audience, call.body.samples)))


def list_tasks(call: Call) -> Answer:
    asked: TaskPage = call.query
    page = call.desks.board.tasks(asked.only(), asked.sort, asked.limit, asked.cursor)
    age = {} if page.age is None else {**page.age._asdict(), "age_s": round(page.age.age_s, 3)}
    tasks = [task_fields(view) for view in page.tasks]
    return Answer({"rows": tasks, "cursor": page.cursor, **age, "counts": page.counts})


def show(call: Call) -> Answer:
    view, message, age_s = call.desks.tasks.task_and_message(call.path["id"])
    return Answer({**task_fields(view), "message": message}, headers={"Age": str(round(age_s))} if age_s else {})


def change(call: Call) -> Answer:
    given: TaskChanges = call.body
    if given == TaskChanges():
        raise InvalidInput("There is nothing to change.", "Name at least one of weight, tier, cap, paused, message.")
    changes = given.changes()
    view, edit = call.desks.tasks.change(call.path["id"], None if changes == Changes() else changes, given.message)
    return Answer({**task_fields(view), "edit": None if edit is None else edit.number})


def cancel(call: Call) -> Answer:
    cancelled = call.desks.tasks.cancel(call.path["id"], call.query.wait_s)
    return Answer({"id": call.path["id"], **asdict(cancelled)})


def why(call: Call) -> Answer:
    return Answer(why_fields(call.desks.tasks.why(call.path["id"]), advises=not call.desks.principal.app))


def failures(call: Call) -> Answer:
    desk, id_, asked = call.desks.tasks, call.path["id"], call.query
    if asked.by_reason:
        return rows(desk.failures_by_reason(id_), partial(picked, fields=REASON_FIELDS), asked.limit)
    return rows(desk.failures(id_), partial(picked, fields=FAILURE_FIELDS), asked.limit)


def outcomes(call: Call) -> Answer:
    found = call.desks.tasks.outcomes(call.path["id"], call.query.target)
    return rows(found, partial(picked, fields=OUTCOME_FIELDS), call.query.limit)


def change_many(call: Call) -> Answer:
    given: ManyChanges = call.body
    try:
        tasks = TaskFilter(**msgspec.structs.asdict(given.filter))
    except InvalidInput as error:
        raise InvalidInput(f"filter.{error.cause}", error.next_step) from None
    changes = given.changes()
    desk = call.desks.tasks
    if not given.dry_run:
        return Answer(picked(desk.change_many(tasks, changes), BULK_FIELDS))
    made = desk.preview_change(tasks, changes)
    effects = {"affected": [effect_fields(effect) for effect in made.effects], "affects_others": made.moves_others}
    return Answer({**plan_fields(made.plan), **effects})


_TASK = "/v1/tasks/{id}"
ROUTES = (
    Route(
        method="POST", path="/v1/tasks", action="tasks.submit", handle=submit, upload=upload, body=NewTask,
        max_bytes=TASK_BYTES, status=201, is_idempotent=True,
    ),
    Route(
        method="POST", path="/v1/tasks/preview", action="tasks.preview", handle=preview, body=TaskPreview,
        max_bytes=TASK_BYTES,
    ),
    Route(method="POST", path="/v1/tasks/change", action="tasks.change", handle=change_many, body=ManyChanges),
    Route(method="GET", path="/v1/tasks", action="tasks.list", handle=list_tasks, query=TaskPage),
    Route(method="GET", path=_TASK, action="tasks.show", handle=show),
    Route(method="PATCH", path=_TASK, action="tasks.set", handle=change, body=TaskChanges),
    Route(method="POST", path=f"{_TASK}/cancel", action="tasks.cancel", handle=cancel, query=Wait),
    Route(method="GET", path=f"{_TASK}/why", action="tasks.why", handle=why),
    Route(method="GET", path=f"{_TASK}/failures", action="tasks.failures", handle=failures, query=Failures),
    Route(method="GET", path=f"{_TASK}/outcomes", action="tasks.outcomes", handle=outcomes, query=Outcomes),
)  # fmt: skip
