"""`fairlane task list | show | wait | failures | outcomes`."""

import time
from collections.abc import Iterator
from typing import Any

import click
import msgspec

from dispatcher.channels.names import sends_nothing
from dispatcher.model.values import counted, percent
from dispatcher.model.view import STATES, TaskView
from fairlane.cli.base.arguments import DURATION
from fairlane.cli.base.completion import task_argument
from fairlane.cli.base.connect import client_of, settings_of
from fairlane.cli.base.exit_codes import FAILURE
from fairlane.cli.base.options import task_filters
from fairlane.cli.base.output import Output, output_option, rows_option, say
from fairlane.cli.task.targets import FAILURE_FIELDS, OUTCOME_FIELDS, REASON_FIELDS
from fairlane.cli.task.why import due_text, go_text, say_error

_FIRST = ("id", "state", "done", "rate", "eta_s", "targets.failed", "channel", "reason")
"""Fields that the table of one task shows first."""
FAILURE_COLUMNS = ("target", "outcome", "reason", "attempt")
OUTCOME_COLUMNS = ("target", "outcome", "provider_id", "attempt", "writer", "sequence", "position", "reason")
REASON_COLUMNS = ("count", "outcome", "reason", "example")


def task_fields(view: TaskView) -> dict[str, Any]:
    """Return a task as `-o json` prints it: the fields of dispatcher.model.view.TaskView under their names."""
    fields: dict[str, Any] = msgspec.to_builtins(view)
    return fields


def _emit(output: Output, view: TaskView, **more: Any) -> None:
    fields, total = {**task_fields(view), **more}, view.targets.total
    done = total - view.targets.pending
    text = view.targets.done + (f" ({percent(done / total)})" if total else "")
    shown = {**fields, "done": text, "eta_s": None if view.ended else view.eta_s}
    output.emit_record(fields, shown, _FIRST)
    if trial := sends_nothing(view.channel):
        say(trial)


@click.command("list")
@task_filters("Only", STATES)
@click.option("--limit", type=click.IntRange(1), default=100, help="Maximum number of tasks.")
@click.option("--cursor", help="Continue where an earlier list ended (it printed the cursor on stderr).")
@click.option("--all", "everything", is_flag=True, help="No limit.")
@output_option
@click.pass_context
def list_tasks(
    ctx: click.Context, /, output: Output, limit: int, cursor: str | None, *, everything: bool, **only: str | None
) -> None:
    """List tasks, newest first, including those that ended in the last 16 days."""
    from fairlane.screen.render import tasks_table, trials

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


@click.command()
@task_argument
@output_option
@click.pass_context
def show(ctx: click.Context, output: Output, task_id: str) -> None:
    """Show one task: state, controls, targets by outcome, rate, ETA and present message."""
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


@click.command()
@task_argument
@click.option("--timeout", type=DURATION, help="Give up after this long (exit code 4); the task goes on.")
@click.option("--fail-on-failures", is_flag=True, help="Exit code 1 also if targets of a completed task failed.")
@output_option
@click.pass_context
def wait(ctx: click.Context, output: Output, task_id: str, timeout: float | None, *, fail_on_failures: bool) -> None:
    """Wait until every target has an outcome. Shows progress on a terminal.

    Exit code 0 if the task completed, even if targets of it failed; 1 if it was cancelled, expired or failed (`reason`
    says why). With --fail-on-failures, targets that are invalid (no such address any more) do not count as failed.
    """
    from fairlane.cli.base import progress

    with client_of(ctx) as client, progress.waiting(task_id) as shown:
        view = client.task(task_id).wait(timeout, on_progress=shown)
    _emit(output, view)
    if view.targets.failed:
        say(f"{counted(view.targets.failed, 'target')} failed: fairlane task failures {task_id} --by-reason")
    if view.state != "completed" or (fail_on_failures and view.targets.failed):
        ctx.exit(FAILURE)


@click.command()
@task_argument
@click.option("--by-reason", is_flag=True, help="Count the failures of each reason, with an example.")
@rows_option
@output_option
@click.pass_context
def failures(ctx: click.Context, output: Output, task_id: str, *, by_reason: bool, limit: int | None) -> None:
    """List the targets that failed or are invalid, with the reason."""
    columns, fields = (REASON_COLUMNS, REASON_FIELDS) if by_reason else (FAILURE_COLUMNS, FAILURE_FIELDS)
    with client_of(ctx) as client:
        task = client.task(task_id)
        items: Iterator[Any] = iter(task.failures_by_reason()) if by_reason else task.failures()
        rows, more = output.first_rows(items, fields, limit)
    output.emit_rows(rows, columns)
    if more:
        say(f"There are more than {len(rows):,}: add --limit N, or --by-reason to count them.")


@click.command()
@task_argument
@click.option("--target", help="Only the outcome of this target, if records name it.")
@rows_option
@output_option
@click.pass_context
def outcomes(ctx: click.Context, output: Output, task_id: str, target: str | None, limit: int | None) -> None:
    """List the final outcomes of the targets, with the provider's id of each message where it is known.

    They come from the outcome records of the last 14 days. These always name invalid targets, and others only if the
    workers' setting journal.targets is all. Writer, sequence and position say which target of the task it is. Ids of
    FCM are there if the workers' setting channels.fcm.keep_ids is on. A target may be listed twice: the first counts.
    """
    with client_of(ctx) as client:
        rows, more = output.first_rows(client.task(task_id).outcomes(target), OUTCOME_FIELDS, limit)
    output.emit_rows(rows, OUTCOME_COLUMNS, leaving=("reason", "attempt"))
    if target is not None and not rows:
        say("No outcome record names it: it has no outcome yet, or the workers' setting journal.targets is not all.")
    if more:
        say(f"There are more than {len(rows):,}: add --limit N, or --target T.")
