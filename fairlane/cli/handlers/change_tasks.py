"""`fairlane task pause`, `resume`, `cancel`, `stop`, `close`, `set`: change tasks by id or by filters."""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

import click

from dispatcher.analysis.situation import Situation
from dispatcher.analysis.what_if import effects
from dispatcher.model.errors import InvalidInput, Unreachable
from dispatcher.model.values import counted
from fairlane.cli.base.arguments import Assignment
from fairlane.cli.base.connect import client_of
from fairlane.cli.base.exit_codes import FAILURE, OK, REFUSED, UNREACHABLE
from fairlane.cli.base.output import Output, confirm, say
from fairlane.cli.base.progress import changing, counting
from fairlane.cli.commands.task import CONTROLS
from fairlane.cli.handlers.effects import show_effects, situation
from fairlane.figures.rows import BULK_FIELDS, effects_fields, picked, plan_fields
from fairlane.screen.table import table_of
from producers.client import PushClient
from producers.control.steering import BulkResult, Plan
from producers.control.task_changes import Changes, TaskFilter

Follow = Callable[[PushClient, list[str]], dict[str, Any]]
"""Follow-up on tasks that have the requested state: given their ids, returns additional fields for the JSON."""
SHOWN = 5
"""Number of tasks in a preview."""
_NAMED = 20
"""Maximum number of tasks whose changes are reported one by one."""
_FLAGS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
IN_FLIGHT_S = 5.0
"""How long `task cancel` waits for targets in flight."""


def pause(ctx: click.Context, **asked: Any) -> None:
    change_many(ctx, Changes(paused=True), "paused", **asked)


def resume(ctx: click.Context, **asked: Any) -> None:
    change_many(ctx, Changes(paused=False), "resumed", **asked)


def cancel(ctx: click.Context, **asked: Any) -> None:
    _end_many(ctx, Changes(cancelled=True), **asked)


def stop(ctx: click.Context, reason: str, **asked: Any) -> None:
    _end_many(ctx, Changes(stopped=reason), **asked)


def close(ctx: click.Context, reason: str, **asked: Any) -> None:
    _end_many(ctx, Changes(closed=reason), "is closed", **asked)


def set_controls(ctx: click.Context, words: tuple[str, ...], **asked: Any) -> None:
    fields = [Assignment(*CONTROLS).convert(word, None, ctx) for word in words if "=" in word]
    ids = tuple(word for word in words if "=" not in word)
    if not fields:
        raise click.UsageError("Name at least one FIELD=VALUE.")
    if len(dict(fields)) < len(fields):
        raise click.UsageError("Name each field once.")
    done = " ".join(f"{field}={text}" for field, text in fields)
    change_many(ctx, changes_of(dict(fields)), done, ids=ids, **asked)


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


def _end_many(ctx: click.Context, changes: Changes, done: str = "", *, no_wait: bool, **asked: Any) -> None:
    follow = partial(_follow_in_flight, wait_s=0.0 if no_wait else IN_FLIGHT_S)
    change_many(ctx, changes, done or changes.end, follow, **asked)


def _follow_in_flight(client: PushClient, tasks: list[str], wait_s: float) -> dict[str, Any]:
    """Return the counts of cancelled or stopped tasks.

    Tasks cancelled before are included, so that a second call shows what a first one could not.
    """
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


def change_many(
    ctx: click.Context,
    changes: Changes,
    done: str,
    follow: Follow | None = None,
    *,
    output: Output,
    yes: bool,
    dry_run: bool,
    limit: int | None,
    ids: tuple[str, ...] = (),
    **filters: str | None,
) -> None:
    """Plan the change, show it and ask if a filter was used, change the tasks, and report the result.

    Exits with 1 if some tasks did not take the change, with 4 if a server was lost meanwhile, with 5 if no task took it
    or nobody could be asked.
    """
    tasks, named = TaskFilter(ids=ids, **filters), TaskFilter(ids=ids)
    if tasks.names_all:
        raise click.UsageError("Name tasks by their ids, or by a filter such as --app.")

    with client_of(ctx) as client:
        plan = client.plan_many(tasks, changes)
        if dry_run:
            before = situation(client)
            _show_plan(output, plan, before, before._replace(tasks=plan.applied(before.tasks)), limit)
            return
        if tasks != named:
            _ask(ctx, plan, yes=yes)

        with changing("tasks", len(plan.changing)) as on_progress:
            result = client.set_many(plan, on_progress=on_progress)
        _tell(plan, result, done)
        as_wished = [step.task.id for step in plan.steps if step.task.id not in result.failed]
        followed: dict[str, Any] = {}
        try:
            followed = follow(client, as_wished) if follow is not None and as_wished else {}
        finally:
            _print(output, result, followed)
    ctx.exit(_code(plan, result))


def _code(plan: Plan, result: BulkResult) -> int:
    if not result.failed:
        return OK
    if _left(plan, result):
        return UNREACHABLE
    return FAILURE if result.changed else REFUSED


def _left(plan: Plan, result: BulkResult) -> int:
    """Return the number of tasks that would still take the change: a lost server, or a refusal, leaves some."""
    return len(result.failed.keys() - plan.refused.keys())


def _show_plan(output: Output, plan: Plan, before: Situation, after: Situation, limit: int | None) -> None:
    """Show what would change, and which tasks' finish times it would move."""
    if output.as_json:
        moved = effects_fields(effects(before, after), len(after.tasks), limit)
        output.emit({**plan_fields(plan), **moved}, lambda: "")
        return
    output.emit([], lambda: _preview(plan))
    for reason in list(plan.refused.values())[:_NAMED]:
        say(reason)
    show_effects(output, before, after, limit)


def _ask(ctx: click.Context, plan: Plan, *, yes: bool) -> None:
    count = len(plan.changing)
    already = len(plan.steps) - count
    say(f"{counted(count, 'task')} will be changed" + (f" ({already:,} already set)" if already else ""))
    for step in plan.changing[:SHOWN]:
        changes = (f"{name} {before} -> {after}" for name, (before, after) in step.changes.items())
        say(f"  {step.task.id}: {', '.join(changes)}")
    if count > SHOWN:
        say(f"  and {count - SHOWN:,} more")
    if count and not yes:
        confirm(ctx, f"Change {counted(count, 'task')}?")


def _tell(plan: Plan, result: BulkResult, done: str) -> None:
    for task in result.changed[:_NAMED]:
        say(f"{task} {done}")
    if len(result.changed) > _NAMED:
        say(f"and {len(result.changed) - _NAMED:,} more {done}")
    for step in [step for step in plan.steps if not step.controls][:_NAMED]:
        say(f"{step.task.id} is already set")
    for reason in list(dict.fromkeys(result.failed.values()))[:_NAMED]:
        say(reason)
    if result.lacks_redis:
        say(result.lacks_redis)
    left = _left(plan, result)
    if left:
        say(f"{counted(left, 'task')} may be unchanged; run the same command again to change them")


def _print(output: Output, result: BulkResult, followed: dict[str, Any]) -> None:
    if output.as_json:
        output.emit(picked(result, BULK_FIELDS) | followed, lambda: "")


def _preview(plan: Plan) -> Any:
    rows = [
        {"id": step.task.id} | {name: f"{before} -> {after}" for name, (before, after) in step.changes.items()}
        for step in plan.steps
    ]
    names = dict.fromkeys(name for row in rows for name in row)
    return table_of(rows, list(names) or ["id"])
