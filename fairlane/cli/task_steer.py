"""`fairlane task pause | resume | cancel | set`."""

from collections.abc import Callable

import click

from dispatcher.errors import InvalidInput
from fairlane.cli.arguments import Assignment
from fairlane.cli.connect import client_of
from fairlane.cli.output import say
from producers.handle import TaskHandle


def _number(field: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"{field}: is {text!r}; it must be a number.") from None


def _cap(text: str) -> int | None:
    if text == "none":
        return None
    try:
        return int(text)
    except ValueError:
        raise InvalidInput(f"cap: is {text!r}; it is a whole number of targets/s, or none.") from None


SETTERS: dict[str, Callable[[TaskHandle, str], None]] = {
    "weight": lambda handle, text: handle.set_weight(_number("weight", text)),
    "tier": lambda handle, text: handle.set_tier(text),
    "cap": lambda handle, text: handle.set_cap(_cap(text)),
}


@click.command()
@click.argument("task_ids", metavar="ID...", nargs=-1, required=True)
@click.pass_context
def pause(ctx: click.Context, task_ids: tuple[str, ...]) -> None:
    """Stop sending these tasks until `resume`."""
    _each(ctx, task_ids, TaskHandle.pause, "paused")


@click.command()
@click.argument("task_ids", metavar="ID...", nargs=-1, required=True)
@click.pass_context
def resume(ctx: click.Context, task_ids: tuple[str, ...]) -> None:
    """Go on with paused tasks."""
    _each(ctx, task_ids, TaskHandle.resume, "resumed")


@click.command()
@click.argument("task_ids", metavar="ID...", nargs=-1, required=True)
@click.pass_context
def cancel(ctx: click.Context, task_ids: tuple[str, ...]) -> None:
    """Send nothing more of these tasks; what is not sent ends as cancelled."""
    _each(ctx, task_ids, TaskHandle.cancel, "cancelled")


def _each(ctx: click.Context, task_ids: tuple[str, ...], change: Callable[[TaskHandle], None], done: str) -> None:
    with client_of(ctx) as client:
        for task_id in task_ids:
            change(client.task(task_id))
            say(f"{task_id} {done}")


@click.command("set")
@click.argument("task_id", metavar="ID")
@click.argument("changes", metavar="FIELD=VALUE...", nargs=-1, required=True, type=Assignment(*SETTERS))
@click.pass_context
def set_controls(ctx: click.Context, task_id: str, changes: tuple[tuple[str, str], ...]) -> None:
    """Change a running task: weight=2 tier=high cap=100 (targets/s; cap=none removes it)."""
    with client_of(ctx) as client:
        handle = client.task(task_id)
        for field, text in changes:
            SETTERS[field](handle, text)
            say(f"{task_id} {field}={text}")
