"""Changes of many tasks on the command line: selection, preview, confirmation, progress, and result."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from dispatcher.model.values import counted
from fairlane.cli.base.connect import client_of
from fairlane.cli.base.exit_codes import FAILURE, OK, REFUSED, UNREACHABLE
from fairlane.cli.base.options import FILTERS, F, task_filters, with_options
from fairlane.cli.base.output import Output, say
from fairlane.cli.commands.changes import limit_option
from producers.control.task_changes import LIVE_STATES, Changes, TaskFilter

if TYPE_CHECKING:
    from dispatcher.analysis.situation import Situation
    from producers.client import PushClient
    from producers.control.steering import BulkResult, Plan

Follow = Callable[["PushClient", list[str]], dict[str, Any]]
"""Follow-up on tasks that have the requested state: given their ids, returns additional fields for the JSON."""
SHOWN = 5
"""Number of tasks in a preview."""
_NAMED = 20
"""Maximum number of tasks whose changes are reported one by one."""


@dataclass(frozen=True)
class Selection:
    """The tasks to change, and how the change is confirmed."""

    tasks: TaskFilter
    """Which tasks."""
    yes: bool
    """Whether to change them without asking."""
    dry_run: bool
    """Whether the change is only tried."""
    limit: int | None = None
    """Number of affected tasks that a dry run shows."""

    @property
    def by_filter(self) -> bool:
        return self.tasks != TaskFilter(ids=self.tasks.ids)

    def of(self, ids: tuple[str, ...]) -> "Selection":
        return replace(self, tasks=replace(self.tasks, ids=ids))


def asked_options(command: F) -> F:
    """Give a command filters, --yes, --dry-run and --limit, passed to it as `asked`.

    This includes the command's argument `ids`, if it has one.
    """

    @wraps(command)
    def called(*args: Any, yes: bool, dry_run: bool, limit: int | None, ids: tuple[str, ...] = (), **rest: Any) -> Any:
        filter_ = TaskFilter(ids=ids, **{name: rest.pop(name) for name in FILTERS})
        return command(*args, asked=Selection(filter_, yes, dry_run, limit), **rest)

    return with_options(
        task_filters("Live", LIVE_STATES),
        click.option("--yes", is_flag=True, help="Do not ask for confirmation when filters select the tasks."),
        click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing."),
        limit_option,
    )(called)  # type: ignore[return-value]  # the same command, with options


def change_many(
    ctx: click.Context, output: Output, asked: Selection, changes: Changes, done: str, follow: Follow | None = None
) -> None:
    """Plan the change, show it and ask if a filter was used, change the tasks, and report the result.

    Exits with 1 if some tasks did not take the change, with 4 if a server was lost meanwhile, with 5 if no task took it
    or nobody could be asked.
    """
    if asked.tasks.names_all:
        raise click.UsageError("Name tasks by their ids, or by a filter such as --app.")
    from fairlane.cli.handlers.effects import situation

    with client_of(ctx) as client:
        plan = client.plan_many(asked.tasks, changes)
        if asked.dry_run:
            before = situation(client)
            _show_plan(output, plan, before, _after_plan(before, plan), asked.limit)
            return
        if asked.by_filter:
            _ask(ctx, plan, yes=asked.yes)
        from fairlane.cli.base.progress import changing

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


def _code(plan: "Plan", result: "BulkResult") -> int:
    if not result.failed:
        return OK
    if _left(plan, result):
        return UNREACHABLE
    return FAILURE if result.changed else REFUSED


def _left(plan: "Plan", result: "BulkResult") -> int:
    """Return the number of tasks that would still take the change: a lost server, or a refusal, leaves some."""
    return len(result.failed.keys() - plan.refused.keys())


def _after_plan(before: "Situation", plan: "Plan") -> "Situation":
    after = {step.task.id: step.after for step in plan.changing}
    return before._replace(tasks=[after.get(task.id, task) for task in before.tasks])


def _show_plan(output: Output, plan: "Plan", before: "Situation", after: "Situation", limit: int | None) -> None:
    """Show what would change, and which tasks' finish times it would move."""
    from fairlane.cli.handlers.effects import effect_fields, show_effects

    if output.as_json:
        changes = [{"id": step.task.id, "changes": step.changes} for step in plan.steps]
        effects = effect_fields(before, after, limit)
        output.emit({"changes": changes, "refused": dict(plan.refused), **effects}, lambda: "")
        return
    output.emit([], lambda: _preview(plan))
    for reason in list(plan.refused.values())[:_NAMED]:
        say(reason)
    show_effects(output, before, after, limit)


def _ask(ctx: click.Context, plan: "Plan", *, yes: bool) -> None:
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


def confirm(ctx: click.Context, question: str) -> None:
    """Ask before a change, and end the command unless the answer is yes."""
    if not sys.stdin.isatty():
        say("Nothing was changed: there is no terminal to confirm on.\n  -> Give --yes to change without asking.")
        ctx.exit(REFUSED)
    if not click.confirm(question, err=True):
        say("Nothing was changed.")
        ctx.exit(FAILURE)


def _tell(plan: "Plan", result: "BulkResult", done: str) -> None:
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


def _print(output: Output, result: "BulkResult", followed: dict[str, Any]) -> None:
    if output.as_json:
        fields = {"changed": list(result.changed), "unchanged": result.unchanged, "failed": dict(result.failed)}
        output.emit(fields | followed, lambda: "")


def _preview(plan: "Plan") -> Any:
    from fairlane.screen.table import table_of

    rows = [
        {"id": step.task.id} | {name: f"{before} -> {after}" for name, (before, after) in step.changes.items()}
        for step in plan.steps
    ]
    names = dict.fromkeys(name for row in rows for name in row)
    return table_of(rows, list(names) or ["id"])
