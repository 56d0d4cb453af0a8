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
from fairlane.cli.output import Output, output_option


def task_fields(view: TaskView) -> dict[str, Any]:
    """A task as `-o json` prints it: the fields of dispatcher.view.TaskView under their names."""
    fields: dict[str, Any] = msgspec.to_builtins(view)
    return fields


@click.command("list")
@click.option("--state", type=click.Choice(STATES), help="Only tasks in this state.")
@click.option("--app", help="Only tasks of this app.")
@click.option("--tier", type=click.Choice([str(tier) for tier in Tier]), help="Only tasks of this tier.")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="Most tasks shown, newest first.")
@output_option
@click.pass_context
def list_tasks(
    ctx: click.Context, output: Output, state: str | None, app: str | None, tier: str | None, limit: int
) -> None:
    """Tasks, newest first; ended ones of the last days included."""
    from fairlane.screen.render import tasks_table

    with client_of(ctx) as client:
        views = client.tasks(state, app=app, tier=tier, limit=limit)
    output.emit([task_fields(view) for view in views], lambda: tasks_table(views, limit))


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
    """Wait until every target has an outcome; exit code 0 if the task completed, 1 if it was cancelled or expired."""
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
