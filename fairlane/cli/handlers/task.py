"""`fairlane task list`, `show`, `wait`, `failures`, `outcomes`, `edit`."""

import time
from collections.abc import Iterator
from typing import Any

import click

from dispatcher.channels.names import sends_nothing
from dispatcher.model.values import counted, percent
from dispatcher.model.view import TaskView
from fairlane.cli.base import progress
from fairlane.cli.base.connect import client_of
from fairlane.cli.base.exit_codes import FAILURE
from fairlane.cli.base.json_option import read_message
from fairlane.cli.base.output import Output, say
from fairlane.cli.base.settings import settings_of
from fairlane.cli.handlers.why import due_text, go_text, say_error
from fairlane.figures.rows import FAILURE_FIELDS, OUTCOME_FIELDS, REASON_FIELDS, task_fields
from fairlane.screen.render import tasks_table, trials

_FIRST = ("id", "state", "done", "rate", "eta_s", "targets.failed", "channel", "reason")
"""Fields that the table of one task shows first."""
FAILURE_COLUMNS = ("target", "outcome", "reason", "attempt")
OUTCOME_COLUMNS = ("target", "outcome", "provider_id", "attempt", "writer", "sequence", "position", "reason")
REASON_COLUMNS = ("count", "outcome", "reason", "example")


def _emit(output: Output, view: TaskView, **more: Any) -> None:
    fields, total = {**task_fields(view), **more}, view.targets.total
    done = total - view.targets.pending
    text = view.targets.done + (f" ({percent(done / total)})" if total else "")
    shown = {**fields, "done": text, "eta_s": None if view.ended else view.eta_s}
    output.emit_record(fields, shown, _FIRST)
    if trial := sends_nothing(view.channel):
        say(trial)


def list_tasks(
    ctx: click.Context, /, output: Output, limit: int, cursor: str | None, *, everything: bool, **only: str | None
) -> None:
    with client_of(ctx) as client:
        views, cursor = client.task_page(**only, limit=None if everything else limit, cursor=cursor)
        paused = client.globals().paused_channels & {view.channel for view in views if not view.ended}
    output.emit([task_fields(view) for view in views], lambda: tasks_table(views, len(views)))
    if not views:
        say(f"Redis at {settings_of(ctx).redis.address.named()} knows no {'such ' if any(only.values()) else ''}task")
    for trial in trials(views):
        say(trial)
    for channel in sorted(paused):
        say(f"channel {channel} is paused, and its tasks wait: fairlane channel resume {channel}")
    if cursor is not None:
        say(f"There may be more: add --cursor {cursor}")


def show(ctx: click.Context, output: Output, task_id: str) -> None:
    with client_of(ctx) as client:
        view, message = client.task(task_id).progress(), client.message(task_id)
        trouble = client.channel_trouble(view.channel, view.app) if view.targets.pending and not view.ended else ""
    _emit(output, view, message=message)
    if view.waits_for_go:
        say(go_text(view.id, view.first))
    if trouble:
        say(f"{view.id} waits: {trouble}")
    if view.last_error is not None:
        say_error(view.id, view.last_error, is_live=not view.ended)
        if not view.ended and view.last_error.retry_ms > time.time() * 1000:
            say(f"{view.id}: {due_text(view.last_error)}")


def wait(ctx: click.Context, output: Output, task_id: str, timeout: float | None, *, fail_on_failures: bool) -> None:
    with client_of(ctx) as client, progress.waiting(task_id) as shown:
        view = client.task(task_id).wait(timeout, on_progress=shown)
    _emit(output, view)
    if view.targets.failed:
        say(f"{counted(view.targets.failed, 'target')} failed: fairlane task failures {task_id} --by-reason")
    if view.state != "completed" or (fail_on_failures and view.targets.failed):
        ctx.exit(FAILURE)


def failures(ctx: click.Context, output: Output, task_id: str, *, by_reason: bool, limit: int | None) -> None:
    columns, fields = (REASON_COLUMNS, REASON_FIELDS) if by_reason else (FAILURE_COLUMNS, FAILURE_FIELDS)
    with client_of(ctx) as client:
        task = client.task(task_id)
        items: Iterator[Any] = iter(task.failures_by_reason()) if by_reason else task.failures()
        rows, more = output.first_rows(items, fields, limit)
    output.emit_rows(rows, columns)
    if more:
        say(f"There are more than {len(rows):,}: add --limit N, or --by-reason to count them.")


def outcomes(ctx: click.Context, output: Output, task_id: str, target: str | None, limit: int | None) -> None:
    with client_of(ctx) as client:
        rows, more = output.first_rows(client.task(task_id).outcomes(target), OUTCOME_FIELDS, limit)
    output.emit_rows(rows, OUTCOME_COLUMNS, leaving=("reason", "attempt"))
    if target is not None and not rows:
        say("No outcome record names it: it has no outcome yet, or the workers' setting journal.targets is not all.")
    if more:
        say(f"There are more than {len(rows):,}: add --limit N, or --target T.")


def edit(ctx: click.Context, output: Output, task_id: str, message: str) -> None:
    with client_of(ctx) as client:
        made = client.edit_message(task_id, read_message(message))
    start = "when Redis is back" if made.lacks_redis else "within 2 s"
    report = f"{task_id}: edit {made.number} is in force {start}, for all targets not sent yet"
    if made.latest != made.number:
        report = f"{task_id}: edit {made.number} was replaced at once by edit {made.latest}, made at the same time"
    if output.as_json:
        output.emit_record({"id": task_id, "edit": made.number, "latest": made.latest})
    say(report)
