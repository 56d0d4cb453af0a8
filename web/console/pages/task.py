"""A task: how far it is, when it is done, why not sooner, and what would help."""

import time
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from dispatcher.access.principal import Scope
from dispatcher.analysis.failing import FAILING, HIDDEN_BY
from dispatcher.analysis.task_times import RETRY_WAIT
from dispatcher.analysis.why import AUDIENCE, HELD, NO_CHANNEL, NO_WORKER_RUNS
from dispatcher.model.errors import InvalidInput, TaskEnded
from dispatcher.model.view import ENDED_STATES, TaskView
from fairlane.figures.audit_rows import audit_fields
from fairlane.figures.rows import REASON_FIELDS, fields_of
from fairlane.figures.why_rows import why_fields
from producers.control.task_changes import TaskFilter
from web.console.causes import cause_now, settings_known
from web.console.cures import cures, others, what_ifs
from web.console.page import Done, Form, Page, Plan, Visit
from web.console.steering import change_form

FEW_TASKS = 20
"""With more live tasks the effects of changes are computed when they are asked for: a forecast takes its time."""
_NOT_HELPED = (FAILING, HELD, AUDIENCE, NO_CHANNEL, NO_WORKER_RUNS)
"""Causes against which no other weight, tier or cap helps."""
AUDITED = 1_000
"""The newest changes of an app among which those of a task are looked for."""


def read(visit: Visit) -> dict[str, Any]:
    """One task, live or ended. Effects of changes, and failures by reason, if they are asked for."""
    desks, id_ = visit.desks, visit.path["id"]
    principal = desks.principal
    task, message, _ = desks.tasks.task_and_message(id_)
    explained = desks.tasks.why(id_)
    why, error = why_fields(explained, advises=not principal.app), task.last_error
    settings = settings_known(visit)
    cause, text = cause_now(task, explained.now, explained.last, explained.flow_pause, settings)
    is_due = error and cause in (FAILING, RETRY_WAIT) and error.retry_ms > time.time() * 1000
    causes = () if task.ended else HIDDEN_BY if cause == FAILING else (cause,)
    present = [part for part in why["parts"] if part["cause"] in causes]
    live = sum(desks.board.facets({})["state"].values())
    is_live = task.state not in ENDED_STATES
    can_change = principal.may(Scope.CONTROL) and is_live
    foresees = (
        can_change and cause not in _NOT_HELPED and ("if" in visit.query or (not principal.app and live <= FEW_TASKS))
    )
    known = list(cures(task, cause, settings)) if can_change else []
    failures = desks.tasks.failures_by_reason(id_) if "failures" in visit.query else None
    audit = desks.service.client("audit.list").audit(AUDITED, task.app) if principal.may(Scope.OPERATOR) else ()
    return {
        "task": task,
        "message": list(_texts(message)),
        "why": why,
        "now": {
            "cause": cause,
            "text": text or "nothing that is known holds it back",
            "part": sum(part["part"] for part in present),
            "seconds": sum(part["seconds"] for part in present),
        },
        "due_ms": error.retry_ms if error and is_due else 0,
        "parts": [part for part in why["parts"] if part not in present],
        "foresees": foresees,
        "what_ifs": list(what_ifs(visit, task, [*known, *others(task, cause)])) if foresees else known,
        "pause": explained.flow_pause,
        "is_live": is_live,
        "can_change": can_change,
        "not_helped": _NOT_HELPED,
        "failures": failures,
        "audit": [audit_fields(entry) for entry in audit if entry.task in (task.id, "")],
        "rows": why["parts"] if failures is None else fields_of(failures, REASON_FIELDS),
        **({"still": True} if {"if", "failures"} & visit.query.keys() else {}),
    }


def _texts(message: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield a message as it is shown by default, and in each of its languages."""
    if message:
        yield "", message
    locales = message.get("locales")
    for language, texts in sorted(locales.items()) if isinstance(locales, Mapping) else ():
        if isinstance(texts, Mapping):
            yield language, {**message, **{name: text for name, text in texts.items() if text is not None}}


def _edited(visit: Visit) -> tuple[TaskView, dict[str, Any], list[str]]:
    """Return a task, its message with the texts of the form, and what is new in it."""
    task, message, _ = visit.desks.tasks.task_and_message(visit.path["id"])
    if not message:
        raise TaskEnded(f"Task {task.id} is {task.state}, and its message is not kept.", "Nothing was changed.")
    new: dict[str, Any] = deepcopy(message)
    lines: list[str] = []
    for language, texts in _texts(message):
        for name in ("title", "body"):
            field, before = f"{name} {language}".strip(), str(texts.get(name) or "")
            if (after := visit.form.get(field, before)) != before:
                lines.append(f"{field}: {before} → {after}")
                (new["locales"][language] if language else new)[name] = after
    if not lines:
        raise InvalidInput("The texts are as they were.", "Nothing was changed.")
    return task, new, lines


def _plan_message(visit: Visit) -> Plan:
    task, _, changes = _edited(visit)
    had = task.targets.total - task.targets.pending
    lines = [f"Targets that would get it: {task.targets.pending:,}. It is too late for {had:,}."]
    return Plan(f"Change the message of task {task.id}", changes, lines, tasks=1, targets=task.targets.pending)


def _change_message(visit: Visit) -> Done:
    task, message, _ = _edited(visit)
    _, edit = visit.desks.tasks.change(task.id, None, message)
    later = edit is not None and edit.number != edit.latest
    return Done("Somebody else has changed the message after this." if later else f"Changed the message of {task.id}.")


PAGE = Page(
    name="task", path="/tasks/{id}", title="Task", action="tasks.show", read=read, in_menu=False,
    forms={
        "change": change_form(lambda visit: TaskFilter(ids=(visit.path["id"],))),
        "message": Form(plan=_plan_message, apply=_change_message),
    },
)  # fmt: skip
