"""Tasks: which are stuck, which are mine, and in what order they will end."""

import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

from dispatcher.analysis.failing import FAILING, INCOMPLETE, STUCK
from dispatcher.model.errors import InvalidInput, NotReady, Unreachable
from dispatcher.model.view import ENDED_STATES, Globals, TaskView
from dispatcher.wire.topics import TASK_PATTERN
from fairlane.figures.rows import task_fields
from fairlane.figures.signals import ServiceState, SignalMeter
from producers.control.task_changes import LIVE_STATES, TaskFilter
from producers.desk.board.groups import merged
from web.console.causes import cause_now, settings_known
from web.console.page import Page, Visit
from web.console.steering import change_form

ROWS = 50
MAX_ROWS = 10_000
"""Rows of a table as CSV, and tasks that are changed because of a part of their ids."""
FILTERS = ("app", "state", "tier", "channel", "q")
NEXT_TO_END = "eta"
_ID = re.compile(f"~?{TASK_PATTERN}")
"""A task's id as an app or an operator writes it."""
_USED = 0.8
"""Above this part of it a task's own cap holds it back."""


def read(visit: Visit) -> dict[str, Any]:
    """Live tasks by a filter, with exact counts; or ended ones, which are listed newest first."""
    query, board = visit.query, visit.desks.board
    only = _only(query)
    ended = only["state"] in ENDED_STATES
    sort = "-created" if ended else query.get("sort", NEXT_TO_END)
    selected = {**only, "q": None, "id_prefix": only["q"]} if ended else _selection(only)
    rows = MAX_ROWS if query.get("format") == "csv" else ROWS
    listed = board.tasks(selected, sort, rows, query.get("cursor"))
    facets = board.facets({**selected, "state": None} if ended else selected)
    states, why = facets["state"], _why(visit, listed.tasks)
    kept = {name: query[name] for name in (*FILTERS, "sort") if name in query}
    return {
        "tasks": listed.tasks,
        "why": why,
        "rows": [{**task_fields(task), "why": why[task.id][1]} for task in listed.tasks],
        "age": listed.age,
        "only": only,
        "sort": sort,
        "ended": ended,
        "ended_states": ENDED_STATES,
        "is_id": _ID.fullmatch(only["q"] or "") is not None,
        "matching": None if ended else states.get(only["state"], 0) if only["state"] else sum(states.values()),
        "live": {state: states.get(state, 0) for state in (FAILING, STUCK, INCOMPLETE, *LIVE_STATES)},
        "facets": facets,
        "cursor": listed.cursor,
        "max_rows": MAX_ROWS,
        "address": lambda **changed: _address(kept, **changed),
    }


def _selection(only: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return a filter as the board takes it."""
    return {**only, "state": None, "shown": only["state"]}


def _why(visit: Visit, tasks: Sequence[TaskView]) -> dict[str, tuple[str, str]]:
    """Return what holds tasks back, by id: the cause, and the same in words; both are empty if that is not known."""
    held, settings, caps = dict[str, str](), None, list[str]()
    with suppress(Unreachable, NotReady):
        held = visit.desks.board.held(tasks)
        if settings := settings_known(visit):
            jobs = [group.job for group in merged(visit.desks.board.groups(), settings)]
            workers = visit.desks.service.client("workers.list").workers()
            caps = SignalMeter().take(ServiceState(time.time(), jobs, settings, workers)).caps
    return {
        task.id: cause_now(task, held.get(task.id, ""), _cap(task, settings, caps), settings=settings) for task in tasks
    }


def _cap(task: TaskView, settings: Globals | None, caps: Sequence[str]) -> str:
    """Return the cap that holds a task back, as a cause; empty if none does. caps: pools whose caps do."""
    if task.state != "running" or not task.targets.pending:
        return ""
    if task.cap and task.rate >= _USED * task.cap:
        return "task_cap"
    pools = settings.pools_of(task.app, task.channel) if settings else ()
    return next((f"cap:{pool}" for pool in pools if pool in caps), "")


def _address(kept: Mapping[str, str], **changed: str) -> str:
    """Return the page with these filters; an empty value leaves a filter out."""
    return f"/tasks?{urlencode({name: value for name, value in {**kept, **changed}.items() if value})}"


def _only(given: Mapping[str, str]) -> dict[str, str | None]:
    return {name: given.get(name) or None for name in FILTERS}


def _chosen(visit: Visit) -> TaskFilter:
    """Return the ticked tasks, or the filter of the page. Raises InvalidInput if that would be all tasks."""
    if visit.form.get("which") != "all":
        ids = tuple(visit.form.get("id", "").split())
        if not ids:
            raise InvalidInput("No task is ticked.", "Tick tasks, or choose all that match the filter.")
        return TaskFilter(ids=ids)
    only = _only(visit.form)
    if not any(only.values()):
        raise InvalidInput("No filter is set: this would be all tasks.", "Choose an app, a state or a tier first.")
    part = only["q"]
    if part is None and only["state"] in (None, "scheduled"):
        return TaskFilter(app=only["app"], state=only["state"], tier=only["tier"], channel=only["channel"])
    tasks = visit.desks.board.tasks(_selection(only), "id", MAX_ROWS + 1, None).tasks
    if not 0 < len(tasks) <= MAX_ROWS:
        what = f"have {part!r} in their ids" if part else f"are {only['state']}"
        some = f"More than {MAX_ROWS:,}" if tasks else "No"
        raise InvalidInput(f"{some} live tasks {what}.", "Give another filter.")
    return TaskFilter(ids=tuple(task.id for task in tasks))


def _back(visit: Visit) -> str:
    return _address({name: value for name, value in _only(visit.form).items() if value})


PAGE = Page(
    name="tasks", path="/tasks", title="Tasks", action="tasks.list", read=read,
    forms={"change": change_form(_chosen, _back)},
)  # fmt: skip
