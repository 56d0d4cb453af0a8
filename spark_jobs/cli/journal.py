"""`fairlane journal run | compact`: the outcome journal."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dispatcher.model.values import counted
from fairlane.cli.base.arguments import BYTE_SIZE, DURATION
from fairlane.cli.base.groups import CommandGroup
from fairlane.cli.base.invocation import pass_settings
from fairlane.cli.base.output import Output, output_option, say
from spark_jobs.cli.backlog import tables_option
from spark_jobs.cli.spark_session import SparkOptions, spark_options

if TYPE_CHECKING:
    from fairlane.settings import Settings
    from spark_jobs.journal.job import LandedBatch


@click.group(cls=CommandGroup)
def journal() -> None:
    """Write the outcome of every target to tables: the outcome journal."""


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
@pass_settings
def run(
    settings: "Settings",
    output: Output,
    spark: SparkOptions,
    tables: Path | None,
    max_records: int,
    every_s: float,
    *,
    once: bool,
) -> None:
    """Write outcomes to Parquet files by day and app until SIGTERM or SIGINT.

    Each target's first final outcome is written once. The command can be killed at any moment; started again, it
    continues from its last commit. Only one may write to the same tables. The topics keep records for 14 days: run
    it more often than that.

    Tables (in journal/ of the folder of tables): outcomes, closes (tasks cancelled or expired as a whole: the outcome
    of all their targets that have no row) and tasks. Read them with spark_jobs.journal.tables.
    """
    from spark_jobs.session.session import require_spark

    require_spark()
    from backends.system_clock import SystemClock
    from fairlane.worker.process.stop_signal import stop_on_signals
    from spark_jobs.journal.job import Journal, JournalOptions
    from spark_jobs.journal.log import JournalLog

    folder = (tables or settings.tables_folder).resolve()
    JournalLog(folder).make_folder()  # before Spark starts, which takes long
    with spark.session("fairlane journal") as session:
        stop = stop_on_signals()  # Spark has set its own handler
        made = Journal(session, JournalOptions(folder, settings.pulsar, max_records), SystemClock())
        if not once:
            say(f"outcomes to {folder / 'journal'} every {every_s:g} s")
        total = made.run_once(stop, _tell) if once else made.run(stop, every_s, _tell)
    output.emit_record({name: value for name, value in asdict(total).items() if name != "more"})


def _tell(batch: "LandedBatch") -> None:
    if batch.number:
        outcomes = counted(batch.outcomes, "outcome")
        say(f"batch {batch.number}: {outcomes}, {batch.records:,} records, {batch.files} files")


@journal.command()
@click.option(
    "--file-size",
    type=BYTE_SIZE,
    default="128MiB",
    help="Target size of a file; files of at least half this size are left unchanged.",
)
@click.option("--keep", "keep_s", type=DURATION, default="1h", help="How long replaced files are kept.")
@tables_option
@spark_options
@output_option
@pass_settings
def compact(
    settings: "Settings", output: Output, spark: SparkOptions, tables: Path | None, keep_s: float, file_size: int
) -> None:
    """Merge small files of the journal, and delete files that are no longer needed.

    Safe to run alongside `fairlane journal run` and to kill at any time: readers of the tables see either the old
    files or the new ones, never a mix.
    """
    from spark_jobs.session.session import require_spark

    require_spark()
    from backends.system_clock import SystemClock
    from spark_jobs.journal.compact import CompactOptions
    from spark_jobs.journal.compact import compact as put_together

    folder = (tables or settings.tables_folder).resolve()
    with spark.session("fairlane journal compact") as session:
        output.emit_record(asdict(put_together(session, CompactOptions(folder, file_size, keep_s), SystemClock())))
