"""`fairlane dead-letters` and `invalid`: targets that were given up, or that do not exist any more."""

from collections.abc import Callable

import click

from fairlane.cli.base.arguments import MOMENT
from fairlane.cli.base.groups import Noun
from fairlane.cli.base.options import F, app_names, channel_names, task_ids, with_options
from fairlane.cli.base.output import output_option, rows_option
from producers.outcomes.letter_rows import STATES


def _target_filters(letters: str, given_up: str, *names: str) -> Callable[[F], F]:
    """Give a command these filters of targets. letters, given_up: words of their help."""
    options = {
        "task": click.option("--task", metavar="ID", help=f"Only {letters} of this task.", shell_complete=task_ids),
        "app": click.option("--app", help=f"Only {letters} of this app. Filters combine.", shell_complete=app_names),
        "channel": click.option("--channel", help=f"Only {letters} of this channel.", shell_complete=channel_names),
        "error": click.option("--error", metavar="TEXT", help=f"Only {letters} whose reason contains this text."),
        "since": click.option(
            "--since", type=MOMENT, help=f"Only {letters} {given_up} at or after this: a time, or how long ago (2h)."
        ),
        "until": click.option(
            "--until", type=MOMENT, help=f"Only {letters} {given_up} before this: a time, or how long ago (2h)."
        ),
        "without_task": click.option(
            "--without-task",
            is_flag=True,
            help="Only messages that were not envelopes. They have no task, and cannot be sent again.",
        ),
    }
    return with_options(*(options[name] for name in names))


_filters = _target_filters("letters", "given up", "task", "app", "error", "since", "until", "without_task")
_reading_options = with_options(
    _filters,
    click.option("--state", type=click.Choice(STATES), default="open", help="Only letters in this state."),
)
_changing_options = with_options(
    _filters,
    click.option("--all", "everything", is_flag=True, help="All letters; required if no filter is given."),
    click.option("--yes", is_flag=True, help="Do not ask for confirmation."),
    click.option("--dry-run", is_flag=True, help="Show which letters would be changed, and change nothing."),
    click.option("--limit", type=click.IntRange(1), help="Maximum number of targets, the oldest first."),
    output_option,
)


@click.group("dead-letters", cls=Noun, handlers="fairlane.cli.handlers.targets")
def dead_letters() -> None:
    """List the targets that were given up, send them again, or drop them."""


@dead_letters.command()
@_changing_options
def drop() -> None:
    """Mark dead letters as not needed: they are no longer listed or sent again.

    They stay in the topic until they are 14 days old (`--state dropped` lists them).
    """


@dead_letters.command("list")
@_reading_options
@output_option
def list_letters() -> None:
    """Count dead letters by task, reason and state.

    Letters are kept for 14 days. Without --task or --since, all of them are read.
    """


@dead_letters.command()
@_changing_options
def replay() -> None:
    """Send dead letters again, as one new task for each original task.

    The new task has the message, channel and options of the old one, and the targets with their variables. Each letter
    is sent again at most once, even if two operators run this at the same time. If the command is interrupted, run it
    again: it continues where it stopped.
    """


@dead_letters.command()
@_reading_options
@rows_option
@output_option
def show() -> None:
    """Show dead letters target by target, with reason and times; with -o json also the variables."""


@click.group(cls=Noun, handlers="fairlane.cli.handlers.targets")
def invalid() -> None:
    """The targets that providers called invalid, for the apps' address books."""


@invalid.command()
@_target_filters("targets", "recorded", "app", "channel", "since", "until")
@click.option(
    "--out",
    default="-",
    metavar="FILE",
    help="Where to write; - is standard output. A file appears when it is complete.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["csv", "jsonl"]),
    help="CSV with a header, or a JSON object per line.  [default: by the file's name, else jsonl]",
)
@click.option("--repeats", is_flag=True, help="Write one line for each report instead of one for each target.")
def export() -> None:
    """Write the targets that providers reported as invalid: one line for each app, channel and target.

    Each line has the latest time at which the target was known to be invalid: the one that the provider gave (APNs),
    else that of the record. Delete a target in your app unless it has been registered again since. Records are kept
    for 14 days.
    """
