"""`fairlane backlog snapshot | report`: how the backlog arose, what holds it back, and when it will be gone."""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairlane.cli.base.arguments import DURATION, LONGEST_DAYS
from fairlane.cli.base.connect import settings_of
from fairlane.cli.base.groups import CommandGroup
from fairlane.cli.base.options import F
from fairlane.cli.base.output import Output, output_option, report_option, say
from spark_jobs.cli.spark_session import running

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from fairlane.settings import Settings
    from spark_jobs.backlog.facts import ReportOptions
    from spark_jobs.backlog.report import BacklogReport
    from spark_jobs.backlog.snapshot_files import FileSettings
    from spark_jobs.backlog.snapshot_loop import BacklogSnapshotter
    from spark_jobs.backlog.tables import Section

MIN_EVERY_S = 1.0
_OMITTED_FIRST = (
    *("not sent", "retried", "p95", "wait p50", "workers", "held back by", "done at capacity", "arrive/s", "drain"),
)
"""Columns of the report that are omitted first if there is no room."""


def tables_option(command: F) -> F:
    """Give a command --tables; None: as in the settings."""
    return click.option(
        "--tables",
        type=click.Path(file_okay=False, path_type=Path),
        help="Directory of the tables, instead of the setting `tables`.",
    )(command)


@click.group(cls=CommandGroup)
def backlog() -> None:
    """Record the state of lanes, tiers and caps, and report on the backlog."""


@backlog.command()
@click.option("--every", "every_s", type=DURATION, default="10s", help="Time between two snapshots.")
@click.option("--once", is_flag=True, help="Take one snapshot and print it.")
@click.option("--file-every", "file_s", type=DURATION, default="5m", help="Begin a new Parquet file after this time.")
@click.option(
    "--keep-days", type=click.IntRange(0, LONGEST_DAYS), default=14, help="Days to keep snapshots; 0 keeps all."
)
@tables_option
@output_option
@click.pass_context
def snapshot(
    ctx: click.Context,
    output: Output,
    every_s: float,
    *,
    once: bool,
    file_s: float,
    keep_days: int,
    tables: Path | None,
) -> None:
    """Record the state of lanes, tiers and caps in TABLES/backlog until SIGTERM or SIGINT.

    Each snapshot is one request to Redis and one to each broker, however many lanes there are; one that could not be
    taken is skipped. `fairlane backlog report` reads them. -o sets the output format of --once.
    """
    from backends.extras import require_packages

    if every_s < MIN_EVERY_S:
        raise click.UsageError("--every is at least 1s.")
    require_packages("spark", "pyarrow")
    from spark_jobs.backlog.snapshot_files import FileSettings

    settings = settings_of(ctx)
    files = FileSettings(tables or settings.tables_folder, file_s, min(file_s, 60.0), keep_days)
    if once:
        _once(settings, files, every_s, output)
    else:
        _series(settings, files, every_s)


@contextmanager
def _snapshotter(settings: "Settings", every_s: float) -> Iterator["BacklogSnapshotter"]:
    from backends.pulsar.broker_lanes import BrokerLanes
    from backends.pulsar.client import topics
    from backends.redis.backlog import BacklogReader
    from backends.redis.view import open_view
    from backends.system_clock import SystemClock
    from spark_jobs.backlog.snapshot_loop import BacklogSnapshotter

    clock = SystemClock()
    lanes = BrokerLanes(settings.pulsar, topics(settings.pulsar), clock)
    with closing(open_view(settings.redis)) as view, closing(lanes):
        yield BacklogSnapshotter(BacklogReader(view), lanes, clock, every_s)


def _once(settings: "Settings", files: "FileSettings", every_s: float, output: Output) -> None:
    from spark_jobs.backlog.snapshot_files import SnapshotFiles

    with _snapshotter(settings, every_s) as opened:
        row = opened.take()
    with SnapshotFiles(files) as written:
        written.take_up()
        written.add(row)
        file = written.land()
    fields = {
        "took_ms": row["took_ms"],
        "tasks": len(row["tasks"]),
        "queued": sum(task["queued"] for task in row["tasks"]),
        "lanes": len(row["lanes"]),
        "workers": len(row["workers"]),
        "brokers": sum(broker["answered"] for broker in row["brokers"]),
        "file": str(file),
    }
    at_ms = row["at"].timestamp() * 1000
    output.emit_record({"at": row["at"].isoformat(timespec="milliseconds"), **fields}, {"at_ms": at_ms, **fields})


def _series(settings: "Settings", files: "FileSettings", every_s: float) -> None:
    from backends.system_clock import SystemClock
    from fairlane.worker.process.stop_signal import stop_on_signals
    from spark_jobs.backlog.snapshot_files import SnapshotFiles
    from spark_jobs.backlog.snapshot_loop import SnapshotSeries

    stop = stop_on_signals()
    with _snapshotter(settings, every_s) as opened, SnapshotFiles(files) as written:
        if taken_up := written.take_up():
            say(f"recovered {taken_up:,} snapshots of a run that was interrupted")
        say(f"a snapshot every {every_s:g} s to {files.tables / 'backlog'}")
        series = SnapshotSeries(take=opened.take, files=written, clock=SystemClock(), every_s=every_s, tell=say)
        series.run(stop)
    say(f"{series.taken:,} snapshots")


@backlog.command()
@click.option("--since", "since_s", type=DURATION, default="24h", help="How far back to look.")
@click.option(
    "--recent", "recent_s", type=DURATION, default="5m", help="Measure rates over only this last part of the period."
)
@click.option(
    "--capacity",
    type=click.IntRange(1),
    metavar="RATE",
    help="Forecast the time to drain at this rate (targets/s) instead of the capacity in force.",
)
@click.option("--top", type=click.IntRange(1, 1_000), default=20, help="Number of tasks shown.")
@click.option("--master", default="local[*]", help="Where Spark runs: local[N], spark://HOST:PORT, yarn, k8s://URL.")
@tables_option
@report_option("Output format; html is a single page with charts; redirect it to a file.")
@click.pass_context
def report(
    ctx: click.Context,
    since_s: float,
    recent_s: float,
    capacity: int | None,
    top: int,
    master: str,
    tables: Path | None,
    output: str,
) -> None:
    """Report backlog, rates, age and time to drain by tier, app, channel and task, and what holds each of these back.

    The age is that of the oldest waiting target. Runs a Spark job over the snapshots of `fairlane backlog snapshot`
    and, if there is one, the outcome journal.
    """
    from spark_jobs.session.session import require_spark

    require_spark()
    from backends.system_clock import SystemClock
    from spark_jobs.backlog.facts import ReportOptions

    now_ms = SystemClock().wall_ms()
    folder = tables or settings_of(ctx).tables_folder
    options = ReportOptions(folder, now_ms - round(since_s * 1000), recent_s, capacity or 0, top)
    _show(_made(options, master, now_ms), output)


def _made(options: "ReportOptions", master: str, now_ms: int) -> "BacklogReport":
    from spark_jobs.backlog.job import report as make_report
    from spark_jobs.backlog.job import session_settings
    from spark_jobs.backlog.snapshots import snapshot_days

    snapshot_days(options.tables, options.since_ms)
    with running(session_settings(master, options.tables)) as spark:
        return make_report(spark, options, now_ms)


def _show(report: "BacklogReport", output: str) -> None:
    import msgspec

    from spark_jobs.backlog.tables import page, sections, sentences

    if output == "json":
        click.echo(json.dumps(msgspec.to_builtins(report), indent=2))
    elif output == "html":
        click.echo(page(report))
    else:
        Output().emit(report, lambda: _drawn(list(sentences(report)), sections(report)))


def _drawn(lines: "Sequence[str]", sections: "Sequence[Section]") -> "RenderableType":
    from rich.console import Group
    from rich.text import Text

    from fairlane.screen.table import section_of

    return Group(*map(Text, lines), *(section_of(title, rows, _OMITTED_FIRST) for title, rows in sections if rows))
