"""The present cause that holds a task back, as all pages say it."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime

from dispatcher.access.principal import Scope
from dispatcher.analysis.failing import FAILING, HIDDEN_BY, fails_by
from dispatcher.analysis.task_times import RETRY_WAIT
from dispatcher.analysis.why import AUDIENCE, HELD, PAUSED, SCHEDULED, pool_text
from dispatcher.model.flow_pause import FlowPause
from dispatcher.model.values import duration, moment
from dispatcher.model.view import Globals, TaskView
from fairlane.figures.why_rows import cause_text
from producers.desk.board_desk import BoardDesk
from web.console.page import Visit

_LOOKED_AT = 50
"""Tasks whose tries fail, by which channels are marked."""


def cause_now(
    task: TaskView, now: str, last: str = "", pause: FlowPause | None = None, settings: Globals | None = None
) -> tuple[str, str]:
    """Return the cause, and the same in words; both are empty if nothing is known. now, last, pause: as of Why.
    settings: for who may know caps."""
    if task.waits_for_go:
        return PAUSED, "it waits for a go"
    now_ms = round(time.time() * 1000)
    if now in HIDDEN_BY and (reason := fails_by(task, now_ms)):
        return FAILING, f"its tries fail: {reason}"
    text = _text(task, now or last, settings)
    return now or last, f"{text} ({pause.text_at(now_ms)})" if pause else text


def _text(task: TaskView, cause: str, settings: Globals | None) -> str:
    if cause == RETRY_WAIT:
        error = task.last_error
        return f"its targets wait for the next try: {error.last_reason if error else ''}".removesuffix(": ")
    if cause == SCHEDULED:
        in_s = max(0.0, task.start_ms / 1000 - time.time())
        return f"it starts at {moment(task.start_ms, datetime.now(UTC))} (in {duration(in_s)})"
    if cause in (HELD, AUDIENCE):
        of = f" of {task.expected_targets:,}" if task.expected_targets > task.targets.total else ""
        return f"its submission is not complete: {task.targets.total:,}{of} targets are stored"
    if cause == "task_cap" and task.cap:
        return f"its own cap of {task.cap:,}/s holds it back"
    if cause.startswith("cap:") and settings:
        return f"the cap of {settings.cap(cause[4:]).rate:,}/s of {pool_text(cause)} holds it back"
    return cause_text(cause, task.channel, task.app)


def settings_known(visit: Visit) -> Globals | None:
    """Return the settings to operators, None to keys that may not see them."""
    may = visit.desks.principal.may(Scope.OPERATOR)
    return visit.desks.service.client("service.show").globals() if may else None


def failing_tasks(board: BoardDesk) -> Sequence[TaskView]:
    """Return tasks whose tries fail."""
    now_ms = round(time.time() * 1000)
    listed = board.tasks({"shown": FAILING}, "-eta", _LOOKED_AT, None).tasks
    return [task for task in listed if fails_by(task, now_ms)]
