"""Tasks without an end in sight: those whose tries fail, which the forecast expects to succeed, and stuck ones."""

from dispatcher.analysis.send_errors import CAP_TEXT
from dispatcher.analysis.task_times import PROVIDER, RETRY_WAIT
from dispatcher.model.view import Globals, TaskView

FAILING = "failing"
"""The state of such a task, and its cause."""
STUCK = "stuck"
"""The state of a task that waits, is not sent, and has no predicted end."""
INCOMPLETE = "incomplete"
"""The state of a task of which nothing more can be sent before more of its audience is submitted."""
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
    if task.last_outcome_ms > error.last_ms:  # the provider has answered since
        return ""
    is_first = error.attempt == 1 and error.at_ms >= error.unsent_ms
    if is_first and error.count < task.targets.sent:
        return ""
    return error.last_reason or "no reason given"


def is_incomplete(task: TaskView) -> bool:
    """Return whether a task is INCOMPLETE."""
    is_open = task.state == "running" and not (task.sealed or task.closed or task.rate)
    return is_open and (task.hold_until_sealed or not task.targets.pending)


def trouble(task: TaskView, eta_s: float | None, now_ms: int) -> str:
    """Return why no end of a running task is in sight: FAILING or STUCK; empty if one is, or if it waits for people."""
    if task.rate or task.state != "running" or not task.targets.pending:
        return ""
    if task.waits_for_go or (task.hold_until_sealed and not task.sealed):
        return ""
    if fails_by(task, now_ms):
        return FAILING
    return STUCK if eta_s is None and not waits_for_retry(task, now_ms) else ""


def waits_for_retry(task: TaskView, now_ms: int) -> bool:
    """Return whether nothing of a task is sent before its next try."""
    return not task.rate and task.last_error is not None and task.last_error.retry_ms > now_ms


def shown_state(task: TaskView, eta_s: float | None, now_ms: int, settings: Globals | None) -> str:
    """Return the state of a task as people see it: of a running one also why it is not sent."""
    if task.rate or task.state != "running":
        return task.state
    if is_incomplete(task):
        return INCOMPLETE
    if settings and settings.stops(task.channel, task.app):
        return "paused"
    return trouble(task, eta_s, now_ms) or task.state
