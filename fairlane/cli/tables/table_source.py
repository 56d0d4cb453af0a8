"""Common parts of commands that read a user's table: how it is read, and the names of its columns."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from fairlane.cli.base.arguments import named_values
from fairlane.cli.base.options import F, with_options

if TYPE_CHECKING:
    from spark_jobs.ingest.audience import TableSource


def source_options(command: F) -> F:
    """Give a command --format, --option and --map, as its arguments `table_format`, `reader` and `names`."""
    return with_options(
        click.option(
            "--format",
            "table_format",
            type=click.Choice(["parquet", "csv", "json", "orc", "jdbc"]),
            help="Format of the audience; default: guessed from its name, else parquet.",
        ),
        click.option(
            "--option",
            "reader",
            metavar="NAME=VALUE",
            multiple=True,
            help="Option of Spark's reader: delimiter=;, dbtable=t.",
        ),
        click.option(
            "--map", "names", metavar="COLUMN=FIELD", multiple=True, help="Rename a column, for example token=target."
        ),
    )(command)


def source_of(path: str, given: Mapping[str, Any]) -> "TableSource":
    """Return the table at a path, with the given options."""
    from spark_jobs.ingest.audience import TableSource

    reader = named_values("--option", given["reader"], may_be_empty=True)  # `quote=` turns quotes off
    return TableSource(path, given["table_format"] or "", reader)


def names_of(given: Mapping[str, Any]) -> dict[str, str]:
    """Return the new names of columns, by column."""
    return named_values("--map", given["names"])
