"""`fairlane backlog snapshot`: the state of lanes, tiers and caps, recorded."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

import click

from backends.pulsar.broker_lanes import BrokerLanes
from backends.pulsar.client import topics
from backends.redis.backlog import BacklogReader
from backends.redis.view import open_view
from backends.system_clock import SystemClock
from fairlane.cli.base.output import Output, say
from fairlane.cli.base.settings import settings_of
from fairlane.settings import Settings
from fairlane.worker.process.stop_signal import stop_on_signals
from spark_jobs.backlog.snapshot_files import SnapshotFiles
from spark_jobs.backlog.snapshot_loop import BacklogSnapshotter, SnapshotSeries
from spark_jobs.storage.folder import Folder

MIN_EVERY_S = 1.0


def snapshot(
    ctx: click.Context, output: Output, every_s: float, keep_days: int, tables: str | None, *, once: bool
) -> None:
    if every_s < MIN_EVERY_S:
        raise click.UsageError("--every is at least 1s.")
    settings = settings_of(ctx)
    folder = Folder.of(tables or settings.tables_folder, settings.storage)
    with _snapshotter(settings, every_s) as opened:
        if once:
            _once(opened, folder, output)
        else:
            _series(opened, SnapshotFiles(folder, keep_days), every_s)


@contextmanager
def _snapshotter(settings: Settings, every_s: float) -> Iterator[BacklogSnapshotter]:
    clock = SystemClock()
    lanes = BrokerLanes(settings.pulsar, topics(settings.pulsar), clock)
    with closing(open_view(settings.redis)) as view, closing(lanes):
        yield BacklogSnapshotter(BacklogReader(view), lanes, clock, every_s)


def _once(snapshotter: BacklogSnapshotter, folder: Folder, output: Output) -> None:
    row = snapshotter.take()
    fields = {
        "took_ms": row["took_ms"],
        "tasks": len(row["tasks"]),
        "queued": sum(task["queued"] for task in row["tasks"]),
        "lanes": len(row["lanes"]),
        "workers": len(row["workers"]),
        "brokers": sum(broker["answered"] for broker in row["brokers"]),
        "file": SnapshotFiles(folder, is_series=False).add(row),
    }
    at_ms = row["at"].timestamp() * 1000
    output.emit_record({"at": row["at"].isoformat(timespec="milliseconds"), **fields}, {"at_ms": at_ms, **fields})


def _series(snapshotter: BacklogSnapshotter, files: SnapshotFiles, every_s: float) -> None:
    stop = stop_on_signals()
    say(f"a snapshot every {every_s:g} s to {files.folder}")
    series = SnapshotSeries(take=snapshotter.take, files=files, clock=SystemClock(), every_s=every_s, tell=say)
    series.run(stop)
    say(f"{series.taken:,} snapshots")
