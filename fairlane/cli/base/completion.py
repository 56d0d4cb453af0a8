"""Shell completion of names that the servers know: task ids, channels and apps."""

from collections.abc import Callable

import click

from fairlane.floors import loaded

Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def _known(read: str) -> Complete:
    """Return a completion. read: the function of `handlers.names` that returns the names."""

    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
        names: list[str] = loaded(f"fairlane.cli.handlers.names:{read}")(ctx, incomplete)
        return names

    return complete


task_ids, channel_names, app_names = map(_known, ("task_ids", "channel_names", "app_names"))
task_argument = click.argument("task_id", metavar="ID", shell_complete=task_ids)
