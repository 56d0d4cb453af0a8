"""Common parts of commands that read a user's table: how it is read, and the names of its columns."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from spark_jobs.ingest.audience import TableSource

F = TypeVar("F", bound=Callable[..., Any])


def source_options(command: F) -> F:
    """Give a command --format, --option and --map, as its arguments `table_format`, `reader` and `names`."""
    made: Any = command
    for option in (
        click.option(
            "--map", "names", metavar="COLUMN=FIELD", multiple=True, help="Rename a column, for example token=target."
        ),
        click.option(
            "--option",
            "reader",
            metavar="NAME=VALUE",
            multiple=True,
            help="Option of Spark's reader: delimiter=;, dbtable=t.",
        ),
        click.option(
            "--format",
            "table_format",
            type=click.Choice(["parquet", "csv", "json", "orc", "jdbc"]),
            help="Format of the audience; default: by its name, else parquet.",
        ),
    ):
        made = option(made)
    return made  # type: ignore[no-any-return]


def source_of(path: str, given: Mapping[str, Any]) -> "TableSource":
    """Return the table at a path, with the given options."""
    from spark_jobs.ingest.audience import TableSource

    return TableSource(path, given["table_format"] or "", _pairs("--option", given["reader"]))


def names_of(given: Mapping[str, Any]) -> dict[str, str]:
    """Return the new names of columns, by column."""
    return _pairs("--map", given["names"])


def _pairs(option: str, texts: Sequence[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    for text, (name, _, value) in zip(texts, pairs, strict=True):
        if not (name and value):
            raise click.BadParameter(f"{text!r}: write NAME=VALUE", param_hint=option)
    return {name: value for name, _, value in pairs}
