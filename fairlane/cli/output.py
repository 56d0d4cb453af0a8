"""Data goes to stdout, as a table or as JSON; messages go to stderr."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dispatcher.shown import escaped

if TYPE_CHECKING:
    from rich.console import RenderableType

F = TypeVar("F", bound=Callable[..., Any])
Fields = Mapping[str, Any]


@dataclass(frozen=True)
class Output:
    """How a command prints its data; passed to it as `output` by `output_option`."""

    as_json: bool = False

    def emit(self, data: Any, table: Callable[[], "RenderableType"]) -> None:
        """Print `data` as JSON, or what `table` makes of it."""
        if self.as_json:
            click.echo(json.dumps(data, indent=2, default=str))
        else:
            _print(table())

    def emit_rows(self, rows: Sequence[Fields], columns: Sequence[str]) -> None:
        """Print things of one kind: a JSON list with all their fields, or a table of the named ones."""
        self.emit(rows, lambda: table_of(rows, columns))

    def emit_record(self, record: Fields, rows: Fields | None = None) -> None:
        """Print one thing: a JSON object, or a line for each field (of `rows`, where the table is to differ).

        Nested fields become lines named `outer.inner`.
        """
        shown = [{"field": name, "value": value} for name, value in _flat(record if rows is None else rows, "")]
        self.emit(record, lambda: table_of(shown, ["field", "value"]))

    def emit_document(self, document: Fields, rows: Sequence[Fields], summary: Fields | None = None) -> None:
        """Print a JSON object, or a table of the rows that matter in it, below a line of `summary` if there is one."""
        tables = [found for found in ([summary] if summary else [], rows) if found]
        self.emit(document, lambda: _stacked([table_of(found, list(found[0])) for found in tables]))


def output_option(command: F) -> F:
    """Give a command `-o table|json`."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json"]),
        default="table",
        show_default=True,
        callback=lambda _ctx, _param, value: Output(value == "json"),
        help="How data is printed.",
    )(command)


def report_option(shown: str) -> Callable[[F], F]:
    """Give a command `-o table|json|html`, passed to it as the word. shown: what the help says of it."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json", "html"]),
        default="table",
        show_default=True,
        help=shown,
    )


def say(message: str) -> None:
    """A message for the person at the terminal."""
    click.echo(escaped(message, lines=True), err=True)


def table_of(rows: Iterable[Fields], columns: Sequence[str]) -> "RenderableType":
    """A plain table; values that are not there show as `-`."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in columns:
        table.add_column(name.upper(), overflow="fold")
    for row in rows:
        table.add_row(*(Text(text_of(row.get(name))) for name in columns))
    return table


def _stacked(tables: Sequence["RenderableType"]) -> "RenderableType":
    """Return the tables one below the other, an empty line between them."""
    from rich.console import Group

    lines = [part for table in tables for part in ("", table)]
    return Group(*lines[1:])


def text_of(value: Any) -> str:
    """A value as a table shows it."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1_000 else f"{value:,.0f}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={text_of(inner)}" for name, inner in value.items()) or "-"
    if isinstance(value, list | tuple):
        return ", ".join(map(text_of, value)) or "-"
    return escaped(str(value))


def _flat(record: Fields, prefix: str) -> Iterable[tuple[str, Any]]:
    for name, value in record.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _print(renderable: "RenderableType") -> None:
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=400)  # a pipe has no width: lines stay whole
    console.print(renderable)
