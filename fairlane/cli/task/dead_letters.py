"""`fairlane dead-letters list | show | replay | drop`."""

from dataclasses import asdict, dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from dispatcher.model.values import counted
from fairlane.cli.base.connect import client_of
from fairlane.cli.base.groups import CommandGroup
from fairlane.cli.base.options import F, with_options
from fairlane.cli.base.output import Output, fields_of, output_option, rows_option, say
from fairlane.cli.task.many import confirm
from fairlane.cli.task.targets import GROUP_FIELDS, LETTER_FIELDS, target_filters
from producers.outcomes.letter_rows import STATES
from producers.outcomes.record import TargetFilter

if TYPE_CHECKING:
    from producers.outcomes.record import ReasonGroup

GROUP_COLUMNS = ("task", "app", "count", "outcome", "reason", "state", "last_ms", "example")
TARGET_COLUMNS = ("task", "target", "outcome", "reason", "attempt", "state", "at_ms")
REPLAY_COLUMNS = ("task", "replay", "targets", "refused", "state")


_filters = target_filters("letters", "given up", "task", "app", "error", "since", "until", "without_task")
_reading_options = with_options(
    _filters,
    click.option("--state", type=click.Choice(STATES), default="open", help="Only letters in this state."),
)


@dataclass(frozen=True)
class LetterChange:
    """Which letters to change, and how the change is confirmed."""

    chosen: TargetFilter
    limit: int | None
    """Maximum number of targets."""
    yes: bool
    """Whether to change them without asking."""
    dry_run: bool
    """Whether they are only shown."""


def _changing_options(command: F) -> F:
    """Give a command the filters and the options of a change, passed to it as `asked`."""

    @wraps(command)
    def called(
        *args: Any, chosen: TargetFilter, everything: bool, limit: int | None, yes: bool, dry_run: bool, **rest: Any
    ) -> Any:
        if chosen == TargetFilter() and not everything:
            raise click.UsageError("Say which letters, by a filter such as --task or --error, or give --all.")
        return command(*args, asked=LetterChange(chosen, limit, yes, dry_run), **rest)

    return with_options(
        _filters,
        click.option("--all", "everything", is_flag=True, help="All letters; required if no filter is given."),
        click.option("--yes", is_flag=True, help="Do not ask for confirmation."),
        click.option("--dry-run", is_flag=True, help="Show which letters would be changed, and change nothing."),
        click.option("--limit", type=click.IntRange(1), help="Maximum number of targets, the oldest first."),
        output_option,
        click.pass_context,
    )(called)  # type: ignore[return-value]  # the same command, with options


@click.group("dead-letters", cls=CommandGroup)
def dead_letters() -> None:
    """List the targets that were given up, send them again, or drop them."""


@dead_letters.command("list")
@_reading_options
@output_option
@click.pass_context
def list_letters(ctx: click.Context, output: Output, chosen: TargetFilter, state: str) -> None:
    """Count dead letters by task, reason and state.

    Letters are kept for 14 days. Without --task or --since, all of them are read.
    """
    with client_of(ctx) as client, _reading():
        groups = client.dead_letters.groups(chosen, state)
    _emit(output, groups)
    if not groups:
        say(f"There are no {'' if state == 'all' else state + ' '}dead letters of this kind.")


@dead_letters.command()
@_reading_options
@rows_option
@output_option
@click.pass_context
def show(ctx: click.Context, output: Output, chosen: TargetFilter, state: str, limit: int | None) -> None:
    """Show dead letters target by target, with reason and times; with -o json also the variables."""
    with client_of(ctx) as client, _reading():
        rows, more = output.first_rows(client.dead_letters.targets(chosen, state), LETTER_FIELDS, limit)
    output.emit_rows(rows, TARGET_COLUMNS, ("attempt", "at_ms"))
    if more:
        say(f"There are more than {len(rows):,}: add --limit N, or use `fairlane dead-letters list`.")


@dead_letters.command()
@_changing_options
def replay(ctx: click.Context, output: Output, asked: LetterChange) -> None:
    """Send dead letters again, as one new task for each original task.

    The new task has the message, channel and options of the old one, and the targets with their variables. Each letter
    is sent again at most once, even if two operators run this at the same time. If the command is interrupted, run it
    again: it continues where it stopped.
    """
    from fairlane.cli.base.progress import replaying

    with client_of(ctx) as client:
        with _reading():
            groups = client.dead_letters.groups(asked.chosen) + client.dead_letters.groups(asked.chosen, "replaying")
        groups = [group for group in groups if group.outcome == "failed"]
        results = []
        if _agreed(ctx, output, asked, groups, "sent again"):
            with replaying() as on_progress:
                results = client.dead_letters.replay(asked.chosen, limit=asked.limit, on_progress=on_progress)
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


@dead_letters.command()
@_changing_options
def drop(ctx: click.Context, output: Output, asked: LetterChange) -> None:
    """Mark dead letters as not needed: they are no longer listed or sent again.

    They stay in the topic until they are 14 days old (`--state dropped` lists them).
    """
    with client_of(ctx) as client:
        with _reading():
            groups = client.dead_letters.groups(asked.chosen)
        dropped = 0
        if _agreed(ctx, output, asked, groups, "dropped"):
            with _reading():
                dropped = client.dead_letters.drop(asked.chosen, limit=asked.limit)
    output.emit_record({"dropped": dropped})


def _agreed(ctx: click.Context, output: Output, asked: LetterChange, groups: "list[ReasonGroup]", done: str) -> bool:
    """Say what will be changed, and ask. Return False if there is nothing to change. A dry run ends here."""
    if asked.dry_run:
        _emit(output, groups)
        ctx.exit()
    count = sum(group.count for group in groups)
    tasks = len({group.task for group in groups})
    if not count:
        say("There are no open dead letters of this kind.")
        return False
    if not asked.yes:
        say(f"{counted(min(count, asked.limit or count), 'dead letter')} of {counted(tasks, 'task')} will be {done}")
        confirm(ctx, "Go on?")
    return True


def _emit(output: Output, groups: "list[ReasonGroup]") -> None:
    output.emit_rows(fields_of(groups, GROUP_FIELDS), GROUP_COLUMNS, ("example", "app"))


def _reading() -> Any:
    from fairlane.cli.base.progress import doing

    return doing("reading dead letters")
