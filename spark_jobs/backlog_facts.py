"""What is collected for the report on the backlog: small results of the Spark jobs, as plain values."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dispatcher.errors import NotFound
from spark_jobs import backlog_journal, backlog_series
from spark_jobs.backlog_series import DIMENSIONS, HOW_TO_RECORD, Detail, Times

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TIMES_AT_MOST, STATES_AT_MOST = 1_500, 2_000_000
"""Snapshots that are looked at for ages (one a minute of a day, and all of the last hour), and rows of tasks in them,
about: of more tasks fewer snapshots are."""
BINS, HEAT_BINS = 120, 60
TASKS_AT_MOST = 20_000
"""Tasks with a backlog of which each is told and foreseen by itself, the largest ones."""
WAITS_OF_APPS = 8
SKEW_TIMES, SKEW_ENTRIES = 2.0, 100

Fields = Mapping[str, Any]


@dataclass(frozen=True)
class ReportOptions:
    """since_ms: from when on; recent_s: of how much of the past rates of late are. capacity: targets/s that the end is
    foreseen for besides, 0 for the one that is set. top: how many tasks, and rows of what grew, are shown."""

    tables: Path
    since_ms: int
    recent_s: float = 300.0
    capacity: int = 0
    top: int = 20


class JournalFacts(NamedTuple):
    """first_ms, step_ms: where the bins of by_time begin. names, tasks, by_time: see spark_jobs.backlog_journal."""

    first_ms: int
    step_ms: int
    rows: int
    names: list[Fields]
    tasks: list[Fields]
    by_time: list[Fields]


class Facts(NamedTuple):
    """service: of the snapshots of the grid, without their tasks and lanes, and with `live`, how many tasks there were.
    groups: by tier, app and channel together: tasks, backlog, arrived, done. live: tasks with a backlog.
    over_time, heat, skewed: see spark_jobs.backlog_series."""

    times: Times
    service: list[Fields]
    groups: list[Fields]
    live: list[Fields]
    over_time: list[Fields]
    heat: list[Fields]
    skewed: list[Fields]
    journal: JournalFacts | None


def collect(spark: "SparkSession", options: ReportOptions) -> Facts:
    """Raises NotFound if there are no snapshots."""
    found = backlog_series.snapshots(spark, options.tables, options.since_ms)
    times = _times(found, options)
    chosen = None if times.chosen == times.all else times.chosen
    states_at = backlog_series.states(found, chosen, backlog_series.TIMELINE_FIELDS)
    changes = backlog_series.changes(_both_ends(found, times), times.recent_ms, times.last_ms)
    with _kept(states_at) as states_at, _kept(changes) as changes, _kept(_bands(states_at, times)) as bands:
        on_grid = states_at.where(backlog_series.is_among(times.grid))
        live = _rows(_live(found, times, changes, bands, on_grid))
        tiers = on_grid.select("task", "tier").union(changes.select("task", "tier"))
        return Facts(
            times,
            sorted(_rows(_service(found, times)), key=lambda row: row["at_ms"]),
            _rows(_groups(changes)),
            live,
            _rows(backlog_series.by_dimension(on_grid)),
            _rows(backlog_series.heat(bands)),
            _rows(backlog_series.skewed(_lanes(found, times), SKEW_TIMES, SKEW_ENTRIES)),
            _journal(spark, options, times, tiers, [row["task"] for row in live[: options.top]]),
        )


def _bands(states_at: "DataFrame", times: Times) -> "DataFrame":
    now = states_at.where(backlog_series.is_among(times.heat))
    return backlog_series.banded(backlog_series.waiting(backlog_series.cohorts(states_at), now))


def _times(found: "DataFrame", options: ReportOptions) -> Times:
    from pyspark.sql import functions as f

    times = [row["at_ms"] for row in found.select("at_ms").collect()]
    if not times:
        since = datetime.fromtimestamp(options.since_ms / 1000, UTC)
        raise NotFound(f"There are no snapshots of the backlog since {since:%Y-%m-%d %H:%M} UTC.", HOW_TO_RECORD)
    last = found.where(backlog_series.is_at([max(times)])).select(f.size("tasks").alias("live")).first()
    most = min(TIMES_AT_MOST, max(BINS, STATES_AT_MOST // max(1, last["live"] if last else 1)))
    return backlog_series.choose(times, Detail(most, BINS, HEAT_BINS, options.recent_s))


def _both_ends(found: "DataFrame", times: Times) -> "DataFrame":
    ends = backlog_series.ends(found, times.recent_ms)
    return backlog_series.states(found, sorted({times.recent_ms, times.last_ms})).unionByName(ends)


def _service(found: "DataFrame", times: Times) -> "DataFrame":
    from pyspark.sql import functions as f

    on_grid = found.where(backlog_series.is_at(times.grid))
    serving = f.size(f.filter("workers", lambda worker: worker["state"].isin("serving", "draining")))
    names = (
        "at_ms", "every_s", "epoch", "capacity", "sharing", "caps", "app_weights", "paused_channels",
        "measured_every_s", "tiers",
    )  # fmt: skip
    return on_grid.select(*names, serving.alias("workers"))


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
    found: "DataFrame", times: Times, changes: "DataFrame", bands: "DataFrame", on_grid: "DataFrame"
) -> "DataFrame":
    """Tasks with a backlog, the largest first: changes, oldest_s, grew, since_ms, and consumers and entries of its
    lane."""
    from pyspark.sql import functions as f

    here = changes.where(f.col("live") & (f.col("pending") > 0)).orderBy(f.desc("pending")).limit(TASKS_AT_MOST)
    ages = backlog_series.oldest(bands, times.last_ms)
    grown = backlog_series.growth(on_grid, times.all[0], times.last_ms).drop("backlog")
    lanes = _lanes(found, times).groupBy("lane")
    attached = lanes.agg(f.sum("consumers").alias("consumers"), f.sum("backlog").alias("entries"))
    joined = here.join(ages, "task", "left").join(grown, "task", "left").join(attached, "lane", "left")
    return joined.orderBy(f.desc("pending"), "task")


def _lanes(found: "DataFrame", times: Times) -> "DataFrame":
    from pyspark.sql import functions as f

    now = found.where(backlog_series.is_at([times.last_ms])).select(f.explode("lanes").alias("l"))
    return now.select("l.lane", "l.partition", "l.backlog", "l.consumers")


def _journal(
    spark: "SparkSession", options: ReportOptions, times: Times, tiers: "DataFrame", tasks: Sequence[str]
) -> JournalFacts | None:
    from pyspark.sql import functions as f

    from spark_jobs import journal_tables

    day = datetime.fromtimestamp(times.all[0] / 1000, UTC)
    outcomes = journal_tables.outcomes(spark, options.tables, since=f"{day:%Y-%m-%d}")
    if not outcomes.inputFiles():
        return None
    first_ms = times.all[0]
    step_ms = max(1_000, -(-(times.last_ms - first_ms + 1) // BINS))
    with _kept(backlog_journal.done(outcomes, first_ms, step_ms)) as done:
        names = _rows(backlog_journal.by_dimension(backlog_journal.of_tiers(done, tiers), DIMENSIONS))
        of_apps: dict[str, int] = {}
        for row in names:
            if row["dimension"] == "app":
                of_apps[row["name"]] = of_apps.get(row["name"], 0) + row["done"]
        apps = sorted(of_apps, key=lambda app: -of_apps[app])[:WAITS_OF_APPS]
        by_time = backlog_journal.by_time(done.where(f.col("app").isin(apps)))
        of_tasks = backlog_journal.of_tasks(done, tasks)
        return JournalFacts(first_ms, step_ms, sum(of_apps.values()), names, _rows(of_tasks), _rows(by_time))


@contextmanager
def _kept(frame: "DataFrame") -> Iterator["DataFrame"]:
    """Made once, for all that is made of it."""
    frame.cache()
    try:
        yield frame
    finally:
        frame.unpersist()


def _rows(frame: "DataFrame") -> list[Fields]:
    return [row.asDict(recursive=True) for row in frame.collect()]
