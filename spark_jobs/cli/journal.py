"""`fairlane journal run | compact | import`: the outcome journal."""

from pathlib import Path

import click

from fairlane.cli.base.arguments import BYTE_SIZE, DURATION, LONGEST_DAYS
from fairlane.cli.base.groups import Noun
from fairlane.cli.base.output import output_option
from spark_jobs.cli.options import require_spark, spark_options, tables_option


@click.group(cls=Noun, handlers="spark_jobs.cli.handlers.journal", requires=require_spark)
def journal() -> None:
    """Write the outcome of every target to tables: the outcome journal."""


@journal.command()
@click.option(
    "--file-size",
    type=BYTE_SIZE,
    default="128MiB",
    help="Target size of a file; files of at least half this size are left unchanged.",
)
@click.option("--keep", "keep_s", type=DURATION, default="1h", help="How long replaced files are kept; whole hours.")
@click.option(
    "--keep-days", type=click.IntRange(0, LONGEST_DAYS), default=0, help="Days of outcomes to keep; 0 keeps all."
)
@tables_option
@output_option
def compact() -> None:
    """Merge small files of the journal, and delete files and days that are no longer needed.

    Safe to run alongside `fairlane journal run` and to kill at any time: readers of the tables see either the old
    files or the new ones, never a mix.
    """


@journal.command("import")
@click.argument("old", type=click.Path(exists=True, file_okay=False, path_type=Path))
@tables_option
@output_option
def import_() -> None:
    """Copy a journal of the format before Delta into new tables. OLD is its directory of tables.

    `fairlane journal run` then continues where the old journal ended. The old directory stays as it is.
    """


@journal.command()
@click.option("--once", is_flag=True, help="Exit once everything recorded before the start is written.")
@click.option("--every", "every_s", type=DURATION, default="10s", help="Time between two batches.")
@click.option(
    "--max-records",
    type=click.IntRange(1),
    default=100_000,
    help="Maximum records of each outcome topic in a batch; a record has up to 250,000 outcomes.",
)
@tables_option
@spark_options
@output_option
def run() -> None:
    """Write outcomes to Delta tables until SIGTERM or SIGINT.

    Each target's first final outcome is written once. The command can be killed at any moment; started again, it
    continues from its last commit. Only one may write to the same tables. The topics keep records for 14 days: run
    it more often than that.

    Delta tables (in journal/ of the folder of tables): outcomes, invalid_targets, closes (tasks cancelled or expired
    as a whole: the outcome of all their targets that have no row) and tasks.
    """
