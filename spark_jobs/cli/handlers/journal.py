"""`fairlane journal run | compact | import`: the outcome journal."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from dispatcher.model.values import counted
from fairlane.cli.base.output import Output, say
from fairlane.cli.base.settings import settings_of
from fairlane.worker.process.stop_signal import stop_on_signals
from spark_jobs.cli.handlers.spark_session import spark_session, tables_of
from spark_jobs.journal.compact import compact as put_together
from spark_jobs.journal.job import Journal, JournalOptions, LandedBatch, create_journal
from spark_jobs.journal.older import import_journal


def run(
    ctx: click.Context,
    output: Output,
    tables: str | None,
    max_records: int,
    every_s: float,
    *,
    once: bool,
    **spark: Any,
) -> None:
    settings = settings_of(ctx)
    folder = tables_of(settings, tables)
    create_journal(folder)  # before Spark starts, which takes long
    with spark_session("fairlane journal", **spark) as session:
        stop = stop_on_signals()  # Spark has set its own handler
        made = Journal(session, JournalOptions(folder, settings.pulsar, max_records))
        if not once:
            say(f"outcomes to {folder}/journal every {every_s:g} s")
        total = made.run_once(stop, _tell) if once else made.run(stop, every_s, _tell)
    output.emit_record({name: value for name, value in asdict(total).items() if name != "more"})


def _tell(batch: LandedBatch) -> None:
    if batch.number:
        outcomes = counted(batch.outcomes, "outcome")
        say(f"batch {batch.number}: {outcomes}, {batch.records:,} records, {batch.files} files")


def compact(
    ctx: click.Context, output: Output, tables: str | None, keep_s: float, file_size: int, keep_days: int
) -> None:
    folder = tables_of(settings_of(ctx), tables)
    output.emit_record(asdict(put_together(folder, file_size, keep_s, keep_days)))


def import_(ctx: click.Context, output: Output, old: Path, tables: str | None) -> None:
    output.emit_record(import_journal(old, tables_of(settings_of(ctx), tables)))
