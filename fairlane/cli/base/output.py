"""Output of commands: data goes to stdout, as a table or as JSON; messages go to stderr."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dispatcher.model.shown import KNOWN, escaped, masked_document, without_credentials
from fairlane.cli.base.exit_codes import FAILURE, REFUSED

if TYPE_CHECKING:
    from rich.console import RenderableType

F = TypeVar("F", bound=Callable[..., Any])
Fields = Mapping[str, Any]


@dataclass(frozen=True)
class Output:
    """How a command prints its data; passed to it as `output` by `output_option`."""

    as_json: bool = False

    def emit(self, data: Any, table: Callable[[], "RenderableType"]) -> None:
        """Print `data` as JSON, or the table that `table` returns."""
        if self.as_json:
            click.echo(json.dumps(masked_document(data), indent=2, default=_text))
        else:
            _print(table())

    def emit_rows(
        self,
        rows: Sequence[Fields],
        columns: Sequence[str],
        leaving: Sequence[str] = (),
        shown: Sequence[Fields] | None = None,
    ) -> None:
        """Print things of one kind: a JSON list with all their fields, or a table of the named ones.

        leaving: the columns omitted first if there is no room.
        shown: the rows of the table, if they differ.
        """
        from fairlane.screen.table import table_of

        self.emit(rows, lambda: table_of(rows if shown is None else shown, columns, leaving))

    def first_rows(
        self, items: Iterator[Any], fields: Sequence[str], limit: int | None
    ) -> tuple[list[dict[str, Any]], bool]:
        """Return these fields of the first items, and whether there are more. limit: of rows_option."""
        from fairlane.figures.rows import fields_of

        rows = fields_of(islice(items, limit or (None if self.as_json else MAX_ROWS)), fields)
        return rows, next(items, None) is not None

    def emit_record(self, record: Fields, rows: Fields | None = None, first: Sequence[str] = ()) -> None:
        """Print one thing: a JSON object, or a line for each field (of `rows`, if the table is to differ).

        Nested fields become lines named `outer.inner`. `first`: the fields that matter most, shown above the others.
        """
        from fairlane.screen.table import record_of

        self.emit(record, lambda: record_of(record if rows is None else rows, first))

    def emit_document(self, document: Fields, rows: Sequence[Fields], summary: Fields | None = None) -> None:
        """Print a JSON object, or a table of its important rows, below a line of `summary` if there is one."""
        from fairlane.screen.table import table_of

        tables = [table for table in ([summary] if summary else [], rows) if table]
        self.emit(document, lambda: _stacked([table_of(table, list(table[0])) for table in tables]))


def output_option(command: F) -> F:
    """Give a command `-o table|json`."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json"]),
        default="table",
        show_default=True,
        callback=lambda _ctx, _param, value: Output(value == "json"),
        help="Output format: a table, or JSON with all fields.",
    )(command)


MAX_ROWS = 1_000
"""Default number of rows in a table of targets: 300,000 lines took 90 s to draw."""
rows_option = click.option(
    "--limit", type=click.IntRange(1), help=f"Maximum number of rows.  [default: {MAX_ROWS:,}; all with -o json]"
)


def report_option(shown: str) -> Callable[[F], F]:
    """Give a command `-o table|json|html`, passed to it as a string. `shown`: its description in the help."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json", "html"]),
        default="table",
        show_default=True,
        help=shown,
    )


def say(message: str) -> None:
    """Print a message for the person at the terminal."""
    click.echo(escaped(without_credentials(message), lines=True), err=True)


def confirm(ctx: click.Context, question: str) -> None:
    """Ask before a change, and end the command unless the answer is yes."""
    if not sys.stdin.isatty():
        say("Nothing was changed: there is no terminal to confirm on.\n  -> Give --yes to change without asking.")
        ctx.exit(REFUSED)
    if not click.confirm(question, err=True):
        say("Nothing was changed.")
        ctx.exit(FAILURE)


def _text(value: object) -> str:
    return KNOWN.mask(str(value))


def _stacked(tables: Sequence["RenderableType"]) -> "RenderableType":
    """Return the tables one below the other, separated by empty lines."""
    from rich.console import Group

    lines = [part for table in tables for part in ("", table)]
    return Group(*lines[1:])


def _print(renderable: "RenderableType") -> None:
    from fairlane.screen.console import console_of

    console_of().print(renderable)
