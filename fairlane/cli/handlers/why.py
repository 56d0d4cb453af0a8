"""`fairlane task why`."""

from typing import Any

import click

from dispatcher.analysis.send_errors import SendError
from dispatcher.analysis.task_times import RETRY_WAIT
from dispatcher.analysis.why import Why
from dispatcher.model.values import counted, duration, percent
from dispatcher.model.view import ENDED_STATES
from fairlane.cli.base.connect import client_of
from fairlane.cli.base.output import Output, say
from fairlane.figures.why_rows import now_text, why_fields
from fairlane.screen.fields import local_moment


def why(ctx: click.Context, output: Output, task_id: str) -> None:
    with client_of(ctx) as client:
        explained = client.why(task_id)
    fields = why_fields(explained)
    output.emit_document(fields, [_shown(row) for row in fields["parts"]])
    if output.as_json:
        return
    say(f"{explained.task} is {explained.state}, {duration(explained.age_ms / 1000)} old.")
    if explained.waits_for_go:
        say(go_text(explained.task, explained.waits_for_go))
    elif explained.now:
        say(f"{explained.task} waits now: {_now(explained)}")
    if explained.last_error is not None:
        say_error(explained.task, explained.last_error, is_live=explained.state not in ENDED_STATES)
    for worker in explained.unrecorded:
        say(
            f"{explained.task}: worker {worker.worker} holds outcomes of it that Pulsar has not stored "
            f"(its oldest is from {local_moment(worker.since_ms)}). Their targets wait until that worker reaches "
            "Pulsar or ends: see `fairlane doctor`."
        )


def _now(explained: Why) -> str:
    error = explained.last_error
    if explained.now == RETRY_WAIT and error is not None:
        return due_text(error)
    return now_text(explained)


def go_text(task: str, first: int) -> str:
    """Return a line saying that the first `first` targets were sent as a trial, and how to send or cancel the rest."""
    sent_to = "its first target only" if first == 1 else f"its first {first:,} targets only"
    return (
        f"{task} is sent to {sent_to}, and waits for a go. Send the rest: fairlane task resume {task}. "
        f"Do not send it: fairlane task cancel {task}"
    )


def say_error(task: str, error: SendError, *, is_live: bool) -> None:
    """Print a line on the last error of a task's sends, and one on what was put back unsent while the task is live."""
    if error.count:
        at, reason = local_moment(error.at_ms), error.reason or "no reason given"
        say(f"{task}: {counted(error.count, 'send')} failed so far, the last at {at}: {reason}")
    if error.unsent and is_live:
        at, targets = local_moment(error.unsent_ms), counted(error.unsent, "target")
        say(f"{task}: {targets} put back unsent so far, to be sent later, the last at {at}: {error.unsent_reason}")


def due_text(error: SendError) -> str:
    """Return when the next try of the targets is due."""
    named = f"retry {error.attempt}" if error.at_ms >= error.unsent_ms else "the next try"
    return f"{named} is due at {local_moment(error.retry_ms)}"


def _shown(row: dict[str, Any]) -> dict[str, str]:
    return {
        "part": percent(row["part"]),
        "time": duration(row["seconds"]),
        "where it went": row["meaning"],
        "what helps": row["advice"],
    }
