"""Tasks: which are stuck, which are mine, and in what order they will end."""

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from dispatcher.access.principal import Scope
from dispatcher.analysis.failing import fails_by
from dispatcher.model.errors import InvalidInput
from dispatcher.model.view import ENDED_STATES
from fairlane.figures.rows import task_fields
from producers.control.task_changes import LIVE_STATES, TaskFilter
from web.console.page import Page, Visit
from web.console.steering import change_form

ROWS = 50
MAX_ROWS = 10_000
"""Rows of a table as CSV, and tasks that are changed because of a part of their ids."""
FILTERS = ("app", "state", "tier", "channel", "q")
NEXT_TO_END = "eta"


def read(visit: Visit) -> dict[str, Any]:
    """Live tasks by a filter, with exact counts, failing ones first; or ended ones, which are listed newest first."""
    query, board = visit.query, visit.desks.board
    only = {name: query.get(name) for name in FILTERS}
    ended = only["state"] in ENDED_STATES
    sort = "-created" if ended else query.get("sort", NEXT_TO_END)
    selected = {**only, "q": None, "id_prefix": only["q"]} if ended else only
    rows = MAX_ROWS if query.get("format") == "csv" else ROWS
    listed = board.tasks(selected, sort, rows, query.get("cursor"))
    tasks = listed.tasks
    if sort.endswith("eta") and "cursor" not in query and not ended:
        last = board.tasks(selected, "-eta", ROWS, None).tasks if listed.cursor else tasks
        now_ms = round(time.time() * 1000)
        failing = {task.id: task for task in last if fails_by(task, now_ms)}
        tasks = [*failing.values(), *(task for task in tasks if task.id not in failing)]
    facets = board.facets({**selected, "state": None} if ended else selected)
    kept = {name: query[name] for name in (*FILTERS, "sort") if name in query}
    return {
        "tasks": tasks,
        "rows": [task_fields(task) for task in tasks],
        "age": listed.age,
        "only": only,
        "sort": sort,
        "ended": ended,
        "matching": None if ended else sum(n for state, n in facets["state"].items() if only["state"] in (None, state)),
        "live": {state: facets["state"].get(state, 0) for state in LIVE_STATES},
        "facets": facets,
        "first": _address(kept) if "cursor" in query else None,
        "next": _address(kept, cursor=listed.cursor) if listed.cursor else None,
        "address": lambda **changed: _address(kept, **changed),
        "app": visit.desks.principal.app,
        "can_change": visit.desks.principal.may(Scope.CONTROL) and not ended,
    }


def _address(kept: Mapping[str, str], **changed: str) -> str:
    """Return the page with these filters; an empty value leaves a filter out."""
    return f"/tasks?{urlencode({name: value for name, value in {**kept, **changed}.items() if value})}"


def _only(visit: Visit) -> dict[str, str | None]:
    return {name: visit.form.get(name) or None for name in FILTERS}


def _chosen(visit: Visit) -> TaskFilter:
    """Return the ticked tasks, or the filter of the page. Raises InvalidInput if that would be all tasks."""
    if visit.form.get("which") != "all":
        ids = tuple(visit.form.get("id", "").split())
        if not ids:
            raise InvalidInput("No task is ticked.", "Tick tasks, or choose all that match the filter.")
        return TaskFilter(ids=ids)
    only = _only(visit)
    if not any(only.values()):
        raise InvalidInput("No filter is set: this would be all tasks.", "Choose an app, a state or a tier first.")
    part = only["q"]
    if part is None:
        return TaskFilter(app=only["app"], state=only["state"], tier=only["tier"], channel=only["channel"])
    tasks = visit.desks.board.tasks(only, "id", MAX_ROWS + 1, None).tasks
    if not 0 < len(tasks) <= MAX_ROWS:
        raise InvalidInput(
            f"{f'More than {MAX_ROWS:,}' if tasks else 'No'} live tasks have {part!r} in their ids.",
            "Give another part of the id.",
        )
    return TaskFilter(ids=tuple(task.id for task in tasks))


def _back(visit: Visit) -> str:
    return _address({name: value for name, value in _only(visit).items() if value})


PAGE = Page(
    name="tasks", path="/tasks", title="Tasks", action="tasks.list", read=read,
    forms={"change": change_form(_chosen, _back)},
)  # fmt: skip
