"""The present cause that holds a task back, as all pages say it."""

import time

from dispatcher.analysis.failing import FAILING, HIDDEN_BY, fails_by
from dispatcher.analysis.task_times import RETRY_WAIT
from dispatcher.analysis.why import PAUSED
from dispatcher.model.flow_pause import FlowPause
from dispatcher.model.view import TaskView
from fairlane.figures.why_rows import cause_text


def cause_now(task: TaskView, now: str, last: str = "", pause: FlowPause | None = None) -> tuple[str, str]:
    """Return the cause, and the same in words; both are empty if nothing is known. now, last, pause: as of Why."""
    error = task.last_error
    if task.waits_for_go:
        return PAUSED, "it waits for a go"
    if now in HIDDEN_BY and (reason := fails_by(task, round(time.time() * 1000))):
        return FAILING, f"its tries fail: {reason}"
    if now == RETRY_WAIT:
        return now, f"its targets wait for the next try: {error.last_reason if error else ''}".removesuffix(": ")
    text = cause_text(now or last, task.channel, task.app)
    return now or last, f"{text} ({pause})" if pause else text
