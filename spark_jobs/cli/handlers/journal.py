"""`fairlane journal run | compact`: the outcome journal."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from backends.system_clock import SystemClock
from dispatcher.model.values import counted
from fairlane.cli.base.output import Output, say
from fairlane.cli.base.settings import settings_of
from fairlane.worker.process.stop_signal import stop_on_signals
from spark_jobs.cli.handlers.spark_session import spark_session
from spark_jobs.journal.compact import CompactOptions
from spark_jobs.journal.compact import compact as put_together
from spark_jobs.journal.job import Journal, JournalOptions, LandedBatch
from spark_jobs.journal.log import JournalLog


def run(
    ctx: click.Context,
    output: Output,
    tables: Path | None,
    max_records: int,
    every_s: float,
    *,
    once: bool,
    **spark: Any,
) -> None:
    settings = settings_of(ctx)
    folder = (tables or settings.tables_folder).resolve()
    JournalLog(folder).make_folder()  # before Spark starts, which takes long
    with spark_session("fairlane journal", **spark) as session:
        stop = stop_on_signals()  # Spark has set its own handler
        made = Journal(session, JournalOptions(folder, settings.pulsar, max_records), SystemClock())
        if not once:
            say(f"outcomes to {folder / 'journal'} every {every_s:g} s")
        total = made.run_once(stop, _tell) if once else made.run(stop, every_s, _tell)
    output.emit_record({name: value for name, value in asdict(total).items() if name != "more"})


def _tell(batch: LandedBatch) -> None:
    if batch.number:
        outcomes = counted(batch.outcomes, "outcome")
        say(f"batch {batch.number}: {outcomes}, {batch.records:,} records, {batch.files} files")


def compact(
    ctx: click.Context, output: Output, tables: Path | None, keep_s: float, file_size: int, **spark: Any
) -> None:
    folder = (tables or settings_of(ctx).tables_folder).resolve()
    with spark_session("fairlane journal compact", **spark) as session:
        output.emit_record(asdict(put_together(session, CompactOptions(folder, file_size, keep_s), SystemClock())))
