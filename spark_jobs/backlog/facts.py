"""The facts collected for the report on the backlog: small results of the Spark jobs, as plain values."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.backlog import journal as backlog_journal
from spark_jobs.backlog import series as backlog_series
from spark_jobs.backlog import snapshots as backlog_snapshots
from spark_jobs.backlog.journal import JournalQuery
from spark_jobs.backlog.series import DIMENSIONS, Detail, Times
from spark_jobs.backlog.snapshots import Snapshots
from spark_jobs.journal.files import OUTCOMES
from spark_jobs.journal.log import JournalLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TIMES_AT_MOST, STATES_AT_MOST = 1_500, 2_000_000
"""The approximate maximum number of snapshots for ages, and of rows of tasks in them.

That is one snapshot a minute of a day, and all of the last hour. With more tasks, fewer snapshots are used.
"""
BINS, HEAT_BINS = 120, 60
TASKS_AT_MOST = 20_000
"""The number of tasks, the largest backlogs first, that are reported and forecast one by one."""
WAITS_OF_APPS = 8
SKEW_TIMES, SKEW_ENTRIES = 2.0, 100
SERVICE_FIELDS = (
    "every_s", "epoch", "capacity", "sharing", "caps", "app_weights", "paused_channels", "measured_every_s", "tiers",
    "workers",
)  # fmt: skip
SERVING = ("serving", "draining")

Fields = Mapping[str, Any]


@dataclass(frozen=True)
class ReportOptions:
    """Settings of the report."""

    tables: Path
    since_ms: int
    """The start of the report's time span."""
    recent_s: float = 300.0
    """The length of the time span for recent rates."""
    capacity: int = 0
    """The targets/s for a second forecast; 0 for the capacity that is set."""
    top: int = 20
    """The number of tasks, and of rows on growth, to show."""


class JournalFacts(NamedTuple):
    """The facts from the journal. names, tasks, by_time: see spark_jobs.backlog.journal."""

    first_ms: int
    """The start of the first bin of by_time."""
    step_ms: int
    """The length of each bin."""
    rows: int
    names: list[Fields]
    tasks: list[Fields]
    by_time: list[Fields]


class Facts(NamedTuple):
    """All collected facts. over_time, heat, skewed: see spark_jobs.backlog.series."""

    times: Times
    service: list[Fields]
    """SERVICE_FIELDS of the snapshots of the grid; `workers` is the number of serving workers."""
    groups: list[Fields]
    """By tier, app and channel together: tasks, backlog, arrived, done."""
    live: list[Fields]
    """Tasks with a backlog."""
    over_time: list[Fields]
    heat: list[Fields]
    skewed: list[Fields]
    journal: JournalFacts | None


def collect(spark: "SparkSession", options: ReportOptions) -> Facts:
    """Collect the facts. Raises NotFound if there are no snapshots, and Malformed for a file that cannot be read."""
    snapshots = backlog_snapshots.find(options.tables, options.since_ms)
    times = _times(snapshots, options)
    states_at = backlog_series.states(snapshots.frame(spark, times.chosen), backlog_series.TIMELINE_FIELDS)
    changes = backlog_series.changes(_both_ends(spark, snapshots, times), times.recent_ms, times.last_ms)
    with _kept(states_at) as states_at, _kept(changes) as changes, _kept(_bands(states_at, times)) as bands:
        on_grid = states_at.where(backlog_series.is_among(times.grid))
        lanes = _lanes(spark, snapshots, times)
        live = _rows(_live(times, changes, bands, on_grid, lanes))
        return Facts(
            times=times,
            service=_service(snapshots, times),
            groups=_rows(_groups(changes)),
            live=live,
            over_time=_rows(backlog_series.by_dimension(on_grid)),
            heat=_rows(backlog_series.heat(bands)),
            skewed=_rows(backlog_series.skewed(lanes, SKEW_TIMES, SKEW_ENTRIES)),
            journal=_journal(
                spark, options, times, _tiers(on_grid, changes), [row["task"] for row in live[: options.top]]
            ),
        )


def _bands(states_at: "DataFrame", times: Times) -> "DataFrame":
    now = states_at.where(backlog_series.is_among(times.heat))
    return backlog_series.banded(backlog_series.waiting(backlog_series.cohorts(states_at), now))


def _times(snapshots: Snapshots, options: ReportOptions) -> Times:
    (last,) = snapshots.rows(snapshots.times[-1:], ["tasks"])
    max_times = min(TIMES_AT_MOST, max(BINS, STATES_AT_MOST // max(1, len(last["tasks"]))))
    return backlog_series.choose(snapshots.times, Detail(max_times, BINS, HEAT_BINS, options.recent_s))


def _both_ends(spark: "SparkSession", snapshots: Snapshots, times: Times) -> "DataFrame":
    states = backlog_series.states(snapshots.frame(spark, sorted({times.recent_ms, times.last_ms})))
    after = [at_ms for at_ms in times.all if at_ms > times.recent_ms]
    return states.unionByName(backlog_series.ends(snapshots.frame(spark, after))) if after else states


def _service(snapshots: Snapshots, times: Times) -> list[Fields]:
    rows = snapshots.rows(times.grid, SERVICE_FIELDS)
    return [{**row, "workers": sum(one["state"] in SERVING for one in row["workers"])} for row in rows]


def _groups(changes: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as f

    waits = f.col("live") & (f.col("pending") > 0)
    return changes.groupBy(*DIMENSIONS).agg(
        f.sum(waits.cast("int")).alias("tasks"),
        f.sum(f.when(waits, f.col("pending")).otherwise(0)).alias("backlog"),
        f.sum("arrived").alias("arrived"),
        f.sum("done").alias("done"),
    )


def _live(
    times: Times, changes: "DataFrame", bands: "DataFrame", on_grid: "DataFrame", lanes: "DataFrame"
) -> "DataFrame":
    """Return tasks with a backlog, the largest first.

    Columns: those of changes, oldest_s, grew, since_ms, and consumers and entries of its lane.
    """
    from pyspark.sql import functions as f

    here = changes.where(f.col("live") & (f.col("pending") > 0)).orderBy(f.desc("pending")).limit(TASKS_AT_MOST)
    ages = backlog_series.oldest(bands, times.last_ms)
    grown = backlog_series.growth(on_grid, times.all[0], times.last_ms).drop("backlog")
    attached = lanes.groupBy("lane").agg(f.sum("consumers").alias("consumers"), f.sum("backlog").alias("entries"))
    joined = here.join(ages, "task", "left").join(grown, "task", "left").join(attached, "lane", "left")
    return joined.orderBy(f.desc("pending"), "task")


def _lanes(spark: "SparkSession", snapshots: Snapshots, times: Times) -> "DataFrame":
    from pyspark.sql import functions as f

    now = snapshots.frame(spark, [times.last_ms]).select(f.explode("lanes").alias("l"))
    return now.select("l.lane", "l.partition", "l.backlog", "l.consumers")


def _tiers(on_grid: "DataFrame", changes: "DataFrame") -> dict[str, str]:
    """Return the last known tier of each task."""
    from pyspark.sql import functions as f

    known = on_grid.select("task", "tier", "at_ms").union(changes.select("task", "tier", f.lit(None)))
    last = known.groupBy("task").agg(f.max_by("tier", f.coalesce("at_ms", f.lit(1 << 62))).alias("tier"))
    return {row["task"]: row["tier"] for row in last.collect()}


def _journal(
    spark: "SparkSession", options: ReportOptions, times: Times, tiers: Mapping[str, str], tasks: Sequence[str]
) -> JournalFacts | None:
    log, first_ms = JournalLog(options.tables), times.all[0]
    day = f"{datetime.fromtimestamp(first_ms / 1000, UTC):%Y-%m-%d}"
    files = [file for file in log.read().table(OUTCOMES) if file.day >= day]
    if not files:
        return None
    step_ms = max(1_000, -(-(times.last_ms - first_ms + 1) // BINS))
    sums = backlog_journal.read(spark, log.root, files, JournalQuery(first_ms, step_ms, tiers, tasks))
    names = sums.names.to_pylist()
    of_apps = Counter[str]()
    for row in names:
        if row["dimension"] == "app":
            of_apps[row["name"]] += row["done"]
    apps = sorted(of_apps, key=lambda app: -of_apps[app])[:WAITS_OF_APPS]
    by_time = sums.by_time.filter(pc.is_in(sums.by_time["app"], value_set=pa.array(apps, pa.string())))
    return JournalFacts(
        first_ms=first_ms,
        step_ms=step_ms,
        rows=of_apps.total(),
        names=names,
        tasks=sums.tasks.to_pylist(),
        by_time=by_time.to_pylist(),
    )


@contextmanager
def _kept(frame: "DataFrame") -> Iterator["DataFrame"]:
    """Cache a frame for the duration of the block, so that it is computed once for all its uses."""
    frame.cache()
    try:
        yield frame
    finally:
        frame.unpersist()


def _rows(frame: "DataFrame") -> list[Fields]:
    return [row.asDict(recursive=True) for row in frame.collect()]
