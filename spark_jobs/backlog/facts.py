"""Collect the facts for the report on the backlog: small results of Spark SQL over the long rows of snapshots.

Times are ms of Redis' clock. Targets of a task are sent about in the order in which they were published, so those that
wait are the last ones. The time when as many targets were published as are now settled therefore gives the age of the
oldest waiting one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_jobs.backlog.journal import JournalFacts, JournalQuery, journal_facts
from spark_jobs.backlog.report import AGE_BANDS_S
from spark_jobs.backlog.snapshots import TIMELINE_FIELDS, Snapshots, Times, choose, find, is_among
from spark_jobs.session.frames import kept

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TIMES_AT_MOST, STATES_AT_MOST = 1_500, 2_000_000
"""The approximate maximum number of snapshots for ages, and of rows of tasks in them.

That is one snapshot a minute of a day, and all of the last hour. With more tasks, fewer snapshots are used.
"""
BINS, HEAT_BINS = 120, 60
TASKS_AT_MOST = 20_000
"""The number of tasks, the largest backlogs first, that are reported and forecast one by one."""
SKEW_TIMES, SKEW_ENTRIES = 2.0, 100
SERVICE_COLUMNS = (
    "at_ms", "every_s", "epoch", "capacity", "sharing", "caps", "app_weights", "paused_channels", "measured_every_s",
    "tiers", "size(filter(workers, w -> w.state in ('serving', 'draining'))) workers",
)  # fmt: skip

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


class Facts(NamedTuple):
    """All collected facts, each a list of rows. The functions below say which columns they have."""

    times: Times
    service: list[Fields]
    """SERVICE_COLUMNS of the snapshots of the grid; `workers` is the number of serving workers."""
    groups: list[Fields]
    live: list[Fields]
    over_time: list[Fields]
    heat: list[Fields]
    skewed: list[Fields]
    journal: JournalFacts | None


def collect(spark: "SparkSession", options: ReportOptions) -> Facts:
    """Collect the facts. Raises NotFound if there are no snapshots, and Malformed for a file that cannot be read."""
    snapshots = find(options.tables, options.since_ms)
    times = _times(spark, snapshots, options)
    states_at = snapshots.tasks(spark, times.chosen, TIMELINE_FIELDS)
    changes = changes_of(_both_ends(spark, snapshots, times), times.recent_ms, times.last_ms)
    waits = waiting(cohorts(states_at), states_at.where(is_among(times.heat)))
    with kept(states_at) as states_at, kept(changes) as changes, kept(banded(waits)) as bands:
        on_grid = states_at.where(is_among(times.grid))
        lanes, grown = snapshots.lanes(spark, times.last_ms), growth(on_grid, times.all[0], times.last_ms)
        live = _rows(live_tasks(changes, oldest(bands, times.last_ms), grown, lanes))
        asked = JournalQuery(
            first_ms=times.all[0],
            step_ms=max(1_000, -(-(times.last_ms - times.all[0] + 1) // BINS)),
            tiers=_tiers(on_grid, changes),
            tasks=[row["task"] for row in live[: options.top]],
        )
        return Facts(
            times=times,
            service=_rows(snapshots.at(spark, times.grid).selectExpr(*SERVICE_COLUMNS).orderBy("at_ms")),
            groups=_rows(groups(changes)),
            live=live,
            over_time=_rows(by_dimension(on_grid)),
            heat=_rows(heat(bands)),
            skewed=_rows(skewed(lanes, SKEW_TIMES, SKEW_ENTRIES)),
            journal=journal_facts(spark, options.tables, asked),
        )


def _times(spark: "SparkSession", snapshots: Snapshots, options: ReportOptions) -> Times:
    (last,) = _rows(snapshots.at(spark, snapshots.times[-1:]).selectExpr("size(tasks) tasks"))
    max_times = min(TIMES_AT_MOST, max(BINS, STATES_AT_MOST // max(1, last["tasks"])))
    return choose(snapshots.times, max_times=max_times, bins=BINS, heat_bins=HEAT_BINS, recent_s=options.recent_s)


def _both_ends(spark: "SparkSession", snapshots: Snapshots, times: Times) -> "DataFrame":
    """Return the tasks of the first and the last snapshot of the recent time, and those that ended between them."""
    tasks = snapshots.tasks(spark, sorted({times.recent_ms, times.last_ms}))
    after = [at_ms for at_ms in times.all if at_ms > times.recent_ms]
    return tasks.unionByName(snapshots.tasks(spark, after, column="ended")) if after else tasks


def _tiers(on_grid: "DataFrame", changes: "DataFrame") -> dict[str, str]:
    """Return the last known tier of each task."""
    columns = ("task", "tier", "at_ms")
    known = on_grid.select(*columns).union(changes.select(*columns))
    return {row["task"]: row["tier"] for row in grouped(known, "task", "max_by(tier, at_ms) tier").collect()}


def _rows(frame: "DataFrame") -> list[Fields]:
    return [row.asDict(recursive=True) for row in frame.collect()]


def grouped(frame: "DataFrame", by: str, *columns: str) -> "DataFrame":
    """Return a row for each combination of the values of `by`, with these aggregates, in SQL."""
    from pyspark.sql.functions import expr

    return frame.groupBy(*by.split()).agg(*map(expr, columns))


# ----------------------------------------------------------------- tasks


def changes_of(tasks: "DataFrame", recent_ms: int, last_ms: int) -> "DataFrame":
    """Return how each task changed between two snapshots.

    tasks: those of both, and those that ended between them. Columns:

    - those of tasks, in the task's last row
    - arrived (published), done (worked): targets since the earlier snapshot, from zero if the task was not in it
    - spent: ms by cause since then
    - live: whether the task is still live
    """
    earlier = f"max_by(struct(*), at_ms) FILTER (WHERE at_ms <= {recent_ms}) was"
    return grouped(tasks, "task", "max_by(struct(*), at_ms) now", earlier).selectExpr(
        "now.*",
        "greatest(now.published - coalesce(was.published, 0), 0) arrived",
        "greatest(now.worked - coalesce(was.worked, 0), 0) done",
        "transform_values(now.causes, (cause, ms) -> ms - coalesce(try_element_at(was.causes, cause), 0)) spent",
        f"now.at_ms >= {last_ms} live",
    )


def groups(changes: "DataFrame") -> "DataFrame":
    """Return what each tier, app and channel together have: tasks (with a backlog), backlog, arrived, done."""
    tasks, backlog = "count_if(live AND pending > 0) tasks", "sum(if(live AND pending > 0, pending, 0)) backlog"
    return grouped(changes, "tier app channel", tasks, backlog, "sum(arrived) arrived", "sum(done) done")


def live_tasks(changes: "DataFrame", ages: "DataFrame", grown: "DataFrame", lanes: "DataFrame") -> "DataFrame":
    """Return tasks with a backlog, the largest first.

    Columns: those of changes_of, ages and grown, and consumers and entries of its lane.
    """
    from pyspark.sql.functions import desc

    here = changes.where("live AND pending > 0").orderBy(desc("pending")).limit(TASKS_AT_MOST)
    attached = grouped(lanes, "lane", "sum(consumers) consumers", "sum(backlog) entries")
    joined = here.join(ages, "task", "left").join(grown, "task", "left").join(attached, "lane", "left")
    return joined.selectExpr("*", "held held_by", "pending backlog").orderBy(desc("pending"), "task")


def by_dimension(states_at: "DataFrame") -> "DataFrame":
    """Return the backlog over time of each tier, app and channel: dimension, name, at_ms, backlog."""
    names = "stack(3, 'tier', tier, 'app', app, 'channel', channel) (dimension, name)"
    return grouped(states_at.selectExpr("*", names), "dimension name at_ms", "sum(pending) backlog")


def growth(states_at: "DataFrame", first_ms: int, last_ms: int) -> "DataFrame":
    """Return the growth of each task that has a backlog at last_ms: task, grew, since_ms.

    since_ms: when it was last at its smallest. For a task that came after first_ms: when it was created, with no
    backlog.
    """
    of_task = grouped(
        states_at,
        "task",
        "min(created_ms) created_ms",
        "min_by(struct(pending, at_ms), struct(pending, -at_ms)) smallest",
        f"sum(pending) FILTER (WHERE at_ms = {last_ms}) backlog",
    )
    return of_task.where("backlog > 0").selectExpr(
        "task",
        f"backlog - if(created_ms > {first_ms}, 0, smallest.pending) grew",
        f"if(created_ms > {first_ms}, created_ms, smallest.at_ms) since_ms",
    )


# ----------------------------------------------------------------- ages


def cohorts(states_at: "DataFrame") -> "DataFrame":
    """Return the targets of a task that were published between two snapshots: task, low, high, begun_ms.

    They are the targets after the first `low` ones, up to `high`. begun_ms: the latest time when they were published;
    for those of the first snapshot that knows the task, the time when it was created.
    """
    seen = ("min(at_ms) seen_ms", "min(created_ms) created_ms", "max(start_ms) start_ms")
    levels = grouped(states_at, "task published", *seen).selectExpr(
        "*", "lag(published) OVER (PARTITION BY task ORDER BY published) before"
    )
    return levels.selectExpr(
        "task",
        "coalesce(before, 0) low",
        "published high",
        "greatest(if(before IS NULL, least(created_ms, seen_ms), seen_ms), start_ms) begun_ms",
    ).where("high > low")


def waiting(cohorts_of: "DataFrame", states_at: "DataFrame") -> "DataFrame":
    """Return the waiting targets of each cohort at the time of each state: task, at_ms, targets, age_s.

    Targets scheduled for later do not wait yet.
    """
    met = states_at.join(cohorts_of, "task").where(
        "pending > 0 AND high > settled AND low < published AND begun_ms <= at_ms"
    )
    targets, age_s = "least(high, published) - greatest(low, settled) targets", "(at_ms - begun_ms) / 1000 age_s"
    return met.selectExpr("task", "at_ms", targets, age_s)


def banded(waits: "DataFrame") -> "DataFrame":
    """Return at_ms, task, band (index in AGE_BANDS_S, or one past its end), targets, oldest_s."""
    band = " + ".join(f"int(age_s >= {bound})" for bound in AGE_BANDS_S)
    bands = waits.selectExpr("*", f"{band} band")
    return grouped(bands, "at_ms task band", "sum(targets) targets", "max(age_s) oldest_s")


def oldest(bands: "DataFrame", at_ms: int) -> "DataFrame":
    """Return task, oldest_s at one time."""
    return grouped(bands.where(f"at_ms = {at_ms}"), "task", "max(oldest_s) oldest_s")


def heat(bands: "DataFrame") -> "DataFrame":
    """Return at_ms, band, targets."""
    return grouped(bands, "at_ms band", "sum(targets) targets")


# ----------------------------------------------------------------- lanes


def skewed(lanes: "DataFrame", times: float, min_entries: int) -> "DataFrame":
    """Return lanes with a partition of at least `min_entries` entries and `times` the mean of the lane's partitions.

    Columns: those of spark_jobs.backlog.report.Skew.
    """
    of_lane = grouped(
        lanes.where("partition >= 0"),
        "lane",
        "count(*) partitions",
        "sum(backlog) entries",
        "max_by(partition, backlog) partition",
        "max(backlog) most",
        "try_divide(max(backlog) * count(*), sum(backlog)) times",
        "min(consumers) consumers",
    )
    return of_lane.where(f"most >= {min_entries} AND times >= {times}")
