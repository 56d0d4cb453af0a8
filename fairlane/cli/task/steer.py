"""`fairlane task pause resume cancel stop close set`: change tasks by id, or all that a filter selects."""

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from dispatcher.model.errors import InvalidInput, Unreachable
from fairlane.cli.base.arguments import Assignment
from fairlane.cli.base.completion import task_ids
from fairlane.cli.base.options import with_options
from fairlane.cli.base.output import Output, output_option, say
from fairlane.cli.task.many import Selection, asked_options, change_many
from producers.control.task_changes import Changes

if TYPE_CHECKING:
    from producers.client import PushClient

_FLAGS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
FIELDS = ("weight", "tier", "cap", "paused")
_ids = click.argument("ids", metavar="[ID]...", nargs=-1, shell_complete=task_ids)
_many = with_options(_ids, asked_options, output_option, click.pass_context)
_no_wait = click.option("--no-wait", is_flag=True, help="Do not wait for the outcomes of the targets in flight.")
_reason = click.option("--reason", required=True, metavar="TEXT", help="Reason, shown with the state of the task.")
IN_FLIGHT_S = 5.0
"""How long `task cancel` waits for targets in flight."""


@click.command()
@_many
def pause(ctx: click.Context, output: Output, asked: Selection) -> None:
    """Pause tasks until `resume`: either the given ids, or all live tasks that match the filters."""
    change_many(ctx, output, asked, Changes(paused=True), "paused")


@click.command()
@_many
def resume(ctx: click.Context, output: Output, asked: Selection) -> None:
    """Resume paused tasks: either the given ids, or all that match the filters."""
    change_many(ctx, output, asked, Changes(paused=False), "resumed")


@click.command()
@_no_wait
@_many
def cancel(ctx: click.Context, output: Output, asked: Selection, *, no_wait: bool) -> None:
    """Cancel tasks: targets not sent yet end as cancelled. Prints the number of targets in flight."""
    _end_many(ctx, output, asked, Changes(cancelled=True), no_wait=no_wait)


@click.command()
@_reason
@_no_wait
@_many
def stop(ctx: click.Context, output: Output, asked: Selection, reason: str, *, no_wait: bool) -> None:
    """Stop tasks and record why: like `cancel`, but they end as failed."""
    _end_many(ctx, output, asked, Changes(stopped=reason), no_wait=no_wait)


@click.command()
@_reason
@_no_wait
@_many
def close(ctx: click.Context, output: Output, asked: Selection, reason: str, *, no_wait: bool) -> None:
    """Force stuck tasks to end, for example if envelopes were lost. `fairlane doctor` lists them.

    Also works after a cancel or a stop. Within 30 s the open targets end as cancelled, and the task as failed.
    """
    _end_many(ctx, output, asked, Changes(closed=reason), no_wait=no_wait, done="is closed")


def _end_many(
    ctx: click.Context, output: Output, asked: Selection, changes: Changes, *, no_wait: bool, done: str = ""
) -> None:
    follow = partial(_follow_in_flight, wait_s=0.0 if no_wait else IN_FLIGHT_S)
    change_many(ctx, output, asked, changes, done or changes.end, follow)


def _follow_in_flight(client: "PushClient", tasks: list[str], wait_s: float) -> dict[str, Any]:
    """Return the counts of cancelled or stopped tasks.

    Tasks cancelled before are included, so that a second call shows what a first one could not.
    """
    from fairlane.cli.base.progress import counting

    try:
        with counting("targets in flight") as on_progress:
            report = client.follow_cancelled(tasks, wait_s, on_progress=on_progress)
    except Unreachable as error:
        say(f"The number of targets in flight is not known: {error.cause}")
        return {}
    if report.settled:
        say(f"{report.in_flight:,} targets were in flight; {report.sent:,} of them were sent")
    else:
        say(f"{report.in_flight:,} targets are in flight and may still be sent; {report.sent:,} have been sent so far")
    return asdict(report)


def _ids_and_fields(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    fields = Assignment(*FIELDS).shell_complete(ctx, param, incomplete)
    return [str(field.value) for field in fields] + task_ids(ctx, param, incomplete)


@click.command("set")
@click.argument("words", metavar="[ID]... FIELD=VALUE...", nargs=-1, required=True, shell_complete=_ids_and_fields)
@asked_options
@output_option
@click.pass_context
def set_controls(ctx: click.Context, output: Output, asked: Selection, words: tuple[str, ...]) -> None:
    """Change running tasks: weight=2 tier=high cap=100 (targets/s; cap=100:20 allows 20 at once, cap=none removes it)
    paused=yes.

    \b
    fairlane task set ID weight=3
    fairlane task set --app shop --tier low weight=0.5 --yes
    """
    fields = [Assignment(*FIELDS).convert(word, None, ctx) for word in words if "=" in word]
    ids = tuple(word for word in words if "=" not in word)
    if not fields:
        raise click.UsageError("Name at least one FIELD=VALUE.")
    if len(dict(fields)) < len(fields):
        raise click.UsageError("Name each field once.")
    done = " ".join(f"{field}={text}" for field, text in fields)
    change_many(ctx, output, asked.of(ids), changes_of(dict(fields)), done)


def changes_of(fields: dict[str, str]) -> Changes:
    """Parse changes from the texts of the command line. Raises InvalidInput."""
    weight, paused = fields.get("weight"), fields.get("paused")
    changes = Changes(
        weight=None if weight is None else _number("weight", weight),
        tier=fields.get("tier"),
        cap=fields.get("cap"),
        paused=None if paused is None else _flag("paused", paused),
    )
    changes.controls()
    return changes


def _number(field: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"{field}: is {text!r}; it must be a number.") from None


def _flag(field: str, text: str) -> bool:
    if text not in _FLAGS:
        raise InvalidInput(f"{field}: is {text!r}; it must be yes or no.")
    return _FLAGS[text]
