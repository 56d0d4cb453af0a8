"""Options and arguments that several commands have, and completion of names that the servers know."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from dispatcher.model.tier import Tier
from fairlane.floors import loaded

F = TypeVar("F", bound=Callable[..., Any])
Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def _known(read: str) -> Complete:
    """Return a completion. read: the function of `handlers.names` that returns the names."""

    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
        names: list[str] = loaded(f"fairlane.cli.handlers.names:{read}")(ctx, incomplete)
        return names

    return complete


task_ids, channel_names, app_names = map(_known, ("task_ids", "channel_names", "app_names"))
task_argument = click.argument("task_id", metavar="ID", shell_complete=task_ids)


def with_options(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Give a command these options; its help shows them in this order."""

    def decorated(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorated


def task_filters(which: str, states: Sequence[str]) -> Callable[[F], F]:
    """Give a command the options that select tasks. which: the first word of their help."""
    return with_options(
        click.option(
            "--app",
            help=f"{which} tasks of this app. Filters combine: a task must match all of them.",
            shell_complete=app_names,
        ),
        click.option("--tier", type=click.Choice([str(tier) for tier in Tier]), help=f"{which} tasks of this tier."),
        click.option("--channel", help=f"{which} tasks on this channel.", shell_complete=channel_names),
        click.option("--state", type=click.Choice(states), help=f"{which} tasks in this state."),
        click.option("--id-prefix", help=f"{which} tasks whose id starts with this."),
    )
