"""Whether the tries of a task fail: targets wait, and none is sent. The forecast expects that they succeed."""

from dispatcher.analysis.send_errors import CAP_TEXT
from dispatcher.analysis.task_times import PROVIDER, RETRY_WAIT
from dispatcher.model.view import TaskView

FAILING = "failing"
"""The state of such a task, and its cause."""
HIDDEN_BY = ("", RETRY_WAIT, PROVIDER)
"""The cause of such a task, beside those of `why`."""
_RECENT_MS = 60_000
"""An error counts for this long after the next try was due."""


def fails_by(task: TaskView, now_ms: int) -> str:
    """Return why the tries of a running task fail now, in the channel's words; empty if they do not.

    A cap is no failure, and neither is the first try of targets that are fewer than those sent.
    """
    error = task.last_error
    if error is None or task.state != "running" or not task.targets.pending or task.rate:
        return ""
    if now_ms - max(error.last_ms, error.retry_ms) > _RECENT_MS or error.last_reason == CAP_TEXT:
        return ""
    is_first = error.attempt == 1 and error.at_ms >= error.unsent_ms
    if is_first and error.count < task.targets.sent:
        return ""
    return error.last_reason or "no reason given"
