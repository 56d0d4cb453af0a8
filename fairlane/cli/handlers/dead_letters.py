"""`fairlane dead-letters list | show | replay | drop`."""

from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import Any

import click

from dispatcher.model.values import counted
from fairlane.cli.base.connect import client_of
from fairlane.cli.base.output import Output, confirm, fields_of, say
from fairlane.cli.base.progress import doing, replaying
from fairlane.cli.handlers.task import FAILURE_FIELDS, REASON_FIELDS
from producers.outcomes.record import ReasonGroup, TargetFilter

GROUP_COLUMNS = ("task", "app", "count", "outcome", "reason", "state", "last_ms", "example")
TARGET_COLUMNS = ("task", "target", "outcome", "reason", "attempt", "state", "at_ms")
REPLAY_COLUMNS = ("task", "replay", "targets", "refused", "state")
LETTER_FIELDS = (*FAILURE_FIELDS, "app", "variables", "first_call_ms", "state", "replay", "lane")
GROUP_FIELDS = ("task", "app", "channel", "state", "replay", *REASON_FIELDS)


def list_letters(ctx: click.Context, output: Output, state: str, **filters: Any) -> None:
    chosen = TargetFilter(**filters)
    with client_of(ctx) as client, _reading():
        groups = client.dead_letters.groups(chosen, state)
    _emit(output, groups)
    if not groups:
        say(f"There are no {'' if state == 'all' else state + ' '}dead letters of this kind.")


def show(ctx: click.Context, output: Output, state: str, limit: int | None, **filters: Any) -> None:
    chosen = TargetFilter(**filters)
    with client_of(ctx) as client, _reading():
        rows, more = output.first_rows(client.dead_letters.targets(chosen, state), LETTER_FIELDS, limit)
    output.emit_rows(rows, TARGET_COLUMNS, ("attempt", "at_ms"))
    if more:
        say(f"There are more than {len(rows):,}: add --limit N, or use `fairlane dead-letters list`.")


def replay(
    ctx: click.Context, output: Output, limit: int | None, *, everything: bool, yes: bool, dry_run: bool, **filters: Any
) -> None:
    chosen = _chosen(filters, everything=everything)
    with client_of(ctx) as client:
        with _reading():
            groups = client.dead_letters.groups(chosen) + client.dead_letters.groups(chosen, "replaying")
        groups = [group for group in groups if group.outcome == "failed"]
        results = []
        if _agreed(ctx, output, groups, "sent again", limit, yes=yes, dry_run=dry_run):
            with replaying() as on_progress:
                results = client.dead_letters.replay(chosen, limit=limit, on_progress=on_progress)
    output.emit_rows([asdict(result) for result in results], REPLAY_COLUMNS)
    for result in results:
        if result.state == "replaying":
            say(f"{result.replay} is being submitted by another process")
        if result.refused:
            say(
                f"{result.refused:,} of {result.targets:,} targets of {result.replay} were refused: they lack a "
                "variable of the message, or it is too large with theirs. Submit them yourself with another message: "
                f"`fairlane dead-letters show --task {result.task} --state replayed -o json` lists them."
            )


def drop(
    ctx: click.Context, output: Output, limit: int | None, *, everything: bool, yes: bool, dry_run: bool, **filters: Any
) -> None:
    chosen = _chosen(filters, everything=everything)
    with client_of(ctx) as client:
        with _reading():
            groups = client.dead_letters.groups(chosen)
        dropped = 0
        if _agreed(ctx, output, groups, "dropped", limit, yes=yes, dry_run=dry_run):
            with _reading():
                dropped = client.dead_letters.drop(chosen, limit=limit)
    output.emit_record({"dropped": dropped})


def _chosen(filters: dict[str, Any], *, everything: bool) -> TargetFilter:
    chosen = TargetFilter(**filters)
    if chosen == TargetFilter() and not everything:
        raise click.UsageError("Say which letters, by a filter such as --task or --error, or give --all.")
    return chosen


def _agreed(
    ctx: click.Context,
    output: Output,
    groups: list[ReasonGroup],
    done: str,
    limit: int | None,
    *,
    yes: bool,
    dry_run: bool,
) -> bool:
    """Say what will be changed, and ask. Return False if there is nothing to change. A dry run ends here."""
    if dry_run:
        _emit(output, groups)
        ctx.exit()
    count = sum(group.count for group in groups)
    tasks = len({group.task for group in groups})
    if not count:
        say("There are no open dead letters of this kind.")
        return False
    if not yes:
        say(f"{counted(min(count, limit or count), 'dead letter')} of {counted(tasks, 'task')} will be {done}")
        confirm(ctx, "Go on?")
    return True


def _emit(output: Output, groups: list[ReasonGroup]) -> None:
    output.emit_rows(fields_of(groups, GROUP_FIELDS), GROUP_COLUMNS, ("example", "app"))


def _reading() -> AbstractContextManager[None]:
    return doing("reading dead letters")
