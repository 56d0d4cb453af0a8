"""`fairlane task list | show | wait | failures`."""

from dataclasses import asdict
from typing import Any

import click
import msgspec

from dispatcher.tier import Tier
from dispatcher.view import STATES, TaskView
from fairlane.cli.arguments import Duration
from fairlane.cli.connect import client_of
from fairlane.cli.exit_codes import FAILURE
from fairlane.cli.output import Output, output_option, say

_PAGE = 500


def task_fields(view: TaskView) -> dict[str, Any]:
    """A task as `-o json` prints it: the fields of dispatcher.view.TaskView under their names."""
    fields: dict[str, Any] = msgspec.to_builtins(view)
    return fields


@click.command("list")
@click.option("--state", type=click.Choice(STATES), help="Only tasks in this state.")
@click.option("--app", help="Only tasks of this app.")
@click.option("--tier", type=click.Choice([str(tier) for tier in Tier]), help="Only tasks of this tier.")
@click.option("--channel", help="Only tasks on this channel.")
@click.option("--id-prefix", help="Only tasks whose ids begin so.")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="Most tasks shown, newest first.")
@click.option("--cursor", help="Go on where an earlier list ended (it said so on stderr).")
@click.option("--all", "everything", is_flag=True, help="No limit.")
@output_option
@click.pass_context
def list_tasks(
    ctx: click.Context, /, output: Output, limit: int, cursor: str | None, everything: bool, **only: str | None
) -> None:
    """Tasks, newest first; ended ones of the last days included."""
    from fairlane.screen.render import tasks_table

    views: list[TaskView] = []
    with client_of(ctx) as client:
        while everything or len(views) < limit:
            most = _PAGE if everything else min(_PAGE, limit - len(views))
            page, cursor = client.task_page(**only, limit=most, cursor=cursor)
            views += page
            if cursor is None:
                break
    output.emit([task_fields(view) for view in views], lambda: tasks_table(views, len(views)))
    if cursor is not None:
        say(f"There may be more: add --cursor {cursor}")


@click.command()
@click.argument("task_id", metavar="ID")
@output_option
@click.pass_context
def show(ctx: click.Context, output: Output, task_id: str) -> None:
    """One task: state, controls, targets by outcome, rate and ETA."""
    with client_of(ctx) as client:
        view = client.task(task_id).progress()
    output.emit_record(task_fields(view))


@click.command()
@click.argument("task_id", metavar="ID")
@click.option("--timeout", type=Duration(), help="Give up after this long (exit code 4); the task goes on.")
@output_option
@click.pass_context
def wait(ctx: click.Context, output: Output, task_id: str, timeout: float | None) -> None:
    """Wait until every target has an outcome; exit code 0 if the task completed, 1 if it was cancelled,
    expired or failed (`reason` says why)."""
    with client_of(ctx) as client:
        view = client.task(task_id).wait(timeout)
    output.emit_record(task_fields(view))
    if view.state != "completed":
        ctx.exit(FAILURE)


@click.command()
@click.argument("task_id", metavar="ID")
@output_option
@click.pass_context
def failures(ctx: click.Context, output: Output, task_id: str) -> None:
    """Targets that were given up, with the reason."""
    with client_of(ctx) as client:
        rows = [asdict(failure) for failure in client.task(task_id).failures()]
    output.emit_rows(rows, ["target", "outcome", "reason", "attempt"])
