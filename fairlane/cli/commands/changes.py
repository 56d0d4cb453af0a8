"""Commands that change a setting of the whole service, and the options that they share."""

from typing import Any

import click

from fairlane.cli.base.arguments import CapText
from fairlane.cli.base.groups import Declared
from fairlane.cli.base.options import with_options
from fairlane.cli.base.output import output_option
from fairlane.floors import loaded

HANDLERS = "fairlane.cli.handlers.settings"
SHOWN = 20
"""Default number of rows in a table of affected tasks."""
limit_option = click.option(
    "--limit",
    type=click.IntRange(1),
    help=f"Maximum number of affected tasks shown.  [default: {SHOWN}; all with -o json]",
)
dry_run_options = with_options(
    click.option(
        "--dry-run",
        is_flag=True,
        help="Change nothing; show the estimated finish of each task with and without the change.",
    ),
    limit_option,
    output_option,
)
cap_argument = click.argument("cap", metavar="RATE[:BURST]", type=CapText())


class Change(Declared):
    """A command that calls the method of ServiceControls that has its function's name, with its arguments.

    done: printed then, with the arguments in place of their names in braces.
    """

    handler = f"{HANDLERS}:change"

    def __init__(self, *args: Any, done: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._done = done

    def invoke(self, ctx: click.Context) -> Any:
        return ctx.invoke(loaded(self.handler), ctx, self.function, self._done, **ctx.params)
