"""Collect the facts for the report on the backlog: small results of Spark SQL over the long rows of snapshots.

Times are ms of Redis' clock. Targets of a task are sent about in the order in which they were published, so those that
wait are the last ones. The time when as many targets were published as are now settled therefore gives the age of the
oldest waiting one.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from dispatcher.analysis.why import SCHEDULED
from spark_jobs.backlog.journal import JournalFacts, journal_facts
from spark_jobs.backlog.report import AGE_BANDS_S
from spark_jobs.backlog.snapshots import STATE_FIELDS, TIMELINE_FIELDS, Snapshots, Times, choose, find, is_among
from spark_jobs.session.frames import kept
from spark_jobs.storage.folder import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TIMES_AT_MOST, STATES_AT_MOST = 1_500, 2_000_000
"""The approximate maximum number of snapshots for ages, and of rows of tasks in them.

That is one snapshot a minute of a day, and all of the last hour. With more tasks, fewer snapshots are used.
"""
BINS = 120
SPANS_S = (1, 5, 15, 60, 300, 900, 3_600, 10_800, 21_600, 86_400, 604_800)
"""The lengths of time spans in which waiting is summed up: the shortest of which there are not more than MAX_SPANS."""
MAX_SPANS = 30
TASKS_AT_MOST = 20_000
"""The number of tasks, the largest backlogs first, that are reported and forecast one by one."""
SERVICE_COLUMNS = (
    "at_ms", "every_s", "epoch", "capacity", "sharing", "caps", "app_weights", "paused_channels", "measured_every_s",
    "tiers", "size(filter(workers, w -> w.state in ('serving', 'draining'))) workers",
)  # fmt: skip
HOUR_MS = 3_600_000

Fields = Mapping[str, Any]


@dataclass(frozen=True)
class ReportOptions:
    """Settings of the report."""

    tables: Place
    since_ms: int
    """The start of the report's time span."""
    recent_s: float = 300.0
    """The length of the time span for recent rates."""
    capacity: int = 0
    """The targets/s for a second forecast; 0 for the capacity that is set."""
    top: int = 20
    """The number of tasks to show."""


class Spans(NamedTuple):
    """Time spans of equal length, at round times."""

    first_ms: int
    step_ms: int
    hours: list[float]
    """How long each was observed."""

    def at(self, at_ms: int) -> int:
        """Return the index of the time span that a time is in."""
        return (at_ms - self.first_ms) // self.step_ms

    @property
    def sql(self) -> str:
        """Return the column with the index of a row's time span."""
        return f"int((at_ms - {self.first_ms}) DIV {self.step_ms}) span"


class Facts(NamedTuple):
    """All collected facts, each a list of rows. The functions below say which columns they have."""

    times: Times
    spans: Spans
    service: list[Fields]
    """SERVICE_COLUMNS of the snapshots of the grid; `workers` is the number of serving workers."""
    groups: list[Fields]
    tasks: list[Fields]
    """Rows of changes_of, with oldest_s."""
    tiers: list[Fields]
    """The backlog over time: tier, at_ms, backlog."""
    ages: list[Fields]
    waited: list[Fields]
    spent: list[Fields]
    journal: JournalFacts | None


def collect(spark: "SparkSession", options: ReportOptions) -> Facts:
    """Collect the facts. Raises NotFound if there are no snapshots, and Malformed for a file that cannot be read."""
    from pyspark.sql.functions import desc

    snapshots = find(options.tables, options.since_ms)
    times = _times(spark, snapshots, options)
    spans = spans_of(times.chosen)
    states_at = snapshots.tasks(spark, times.chosen, (*TIMELINE_FIELDS, "held"))
    marks = snapshots.tasks(spark, _marks(times, spans), _FIELDS).unionByName(
        snapshots.tasks(spark, times.all, _FIELDS, column="ended")
    )
    with kept(states_at) as states_at, kept(marks) as marks:
        changes = changes_of(marks, times.recent_ms, times.last_ms)
        bands = banded(waiting(cohorts(states_at), states_at.where(f"at_ms = {times.last_ms}")))
        tasks = changes.join(grouped(bands, "task", "max(oldest_s) oldest_s"), "task", "left")
        waited = _rows(waited_in(spark, states_at, times.chosen, spans))
        tiers = {row["task"]: row["tier"] for row in changes.select("task", "tier").collect()}
        longest_waits = longest(waited, options.top)
        return Facts(
            times=times,
            spans=spans,
            service=_rows(snapshots.at(spark, times.grid).selectExpr(*SERVICE_COLUMNS).orderBy("at_ms")),
            groups=_rows(groups(changes)),
            tasks=_rows(tasks.orderBy(desc("live"), desc("backlog"), "task").limit(TASKS_AT_MOST)),
            tiers=_rows(grouped(states_at.where(is_among(times.grid)), "tier at_ms", "sum(pending) backlog")),
            ages=_rows(grouped(bands, "band", "sum(targets) targets")),
            waited=waited,
            spent=_rows(spent_in(marks, times.chosen[0], spans)),
            journal=journal_facts(options.tables, spans.first_ms, spans.step_ms, tiers, longest_waits),
        )


def _times(spark: "SparkSession", snapshots: Snapshots, options: ReportOptions) -> Times:
    (last,) = _rows(snapshots.at(spark, snapshots.times[-1:]).selectExpr("size(tasks) tasks"))
    max_times = min(TIMES_AT_MOST, max(BINS, STATES_AT_MOST // max(1, last["tasks"])))
    return choose(snapshots.times, max_times=max_times, bins=BINS, recent_s=options.recent_s)


def spans_of(times: Sequence[int]) -> Spans:
    """Return the time spans that cover these snapshots. Each snapshot counts for the time since the one before."""
    lasts_ms = times[-1] - times[0]
    step_ms = 1000 * next((step for step in SPANS_S if lasts_ms <= 1000 * step * (MAX_SPANS - 1)), SPANS_S[-1])
    first_ms = times[0] // step_ms * step_ms
    spans = Spans(first_ms, step_ms, [0.0] * ((times[-1] - first_ms) // step_ms + 1))
    for before, after in pairwise(times):
        spans.hours[spans.at(after)] += (after - before) / HOUR_MS
    return spans


def _marks(times: Times, spans: Spans) -> list[int]:
    """Return the snapshots between which causes and rates are counted: the first, and the last of each time span."""
    return sorted({times.chosen[0], times.recent_ms, *{spans.at(at_ms): at_ms for at_ms in times.chosen}.values()})


def longest(waited: Sequence[Fields], top: int) -> list[str]:
    """Return the tasks that waited most."""
    hours = Counter[str]()
    for row in waited:
        hours[row["task"]] += row["target_hours"]
    return [task for task, _ in hours.most_common(top)]


def _rows(frame: "DataFrame") -> list[Fields]:
    return [row.asDict(recursive=True) for row in frame.collect()]


def grouped(frame: "DataFrame", by: str, *columns: str) -> "DataFrame":
    """Return a row for each combination of the values of `by`, with these aggregates, in SQL."""
    from pyspark.sql.functions import expr

    return frame.groupBy(*by.split()).agg(*map(expr, columns))


# ----------------------------------------------------------------- tasks

_FIELDS = (*STATE_FIELDS, "finished_ms")


def changes_of(marks: "DataFrame", recent_ms: int, last_ms: int) -> "DataFrame":
    """Return the last known state of each task, and how it changed recently.

    marks: rows of tasks, those of both ends of the recent time among them. Columns:

    - those of marks, in the task's last row
    - arrived (published), done (worked): targets since recent_ms, from zero if the task was not there
    - live: whether the task is still live
    - backlog: its waiting targets; 0 if it is not live
    """
    earlier = f"max_by(struct(*), at_ms) FILTER (WHERE at_ms <= {recent_ms}) was"
    return grouped(marks, "task", "max_by(struct(*), at_ms) now", earlier).selectExpr(
        "now.*",
        "greatest(now.published - coalesce(was.published, 0), 0) arrived",
        "greatest(now.worked - coalesce(was.worked, 0), 0) done",
        f"now.at_ms >= {last_ms} live",
        f"if(now.at_ms >= {last_ms}, now.pending, 0) backlog",
    )


def groups(changes: "DataFrame") -> "DataFrame":
    """Return what each tier, app and channel together have: tasks (with a backlog), backlog, arrived, done."""
    sums = ("count_if(backlog > 0) tasks", "sum(backlog) backlog", "sum(arrived) arrived", "sum(done) done")
    return grouped(changes, "tier app channel", *sums)


# ----------------------------------------------------------------- waiting


def waited_in(spark: "SparkSession", states_at: "DataFrame", times: Sequence[int], spans: Spans) -> "DataFrame":
    """Return how much each task waited in each time span: task, tier, app, channel, span, held, hours,
    target_hours.

    held: as in the snapshots; empty: it might be sent. Targets that are scheduled for later do not wait.
    """
    from pyspark.sql.functions import broadcast

    lasted = [(after, (after - before) / HOUR_MS) for before, after in pairwise(times)]
    lasts = spark.createDataFrame(lasted, "at_ms long, hours double")
    here = states_at.where(f"pending > 0 AND held != '{SCHEDULED}'").join(broadcast(lasts), "at_ms")
    return grouped(
        here.selectExpr("*", spans.sql),
        "task tier app channel span held",
        "sum(pending * hours) target_hours",
        "sum(hours) hours",
    )


def spent_in(marks: "DataFrame", first_ms: int, spans: Spans) -> "DataFrame":
    """Return the milliseconds that the ledger counted for each task, span and cause: task, span, cause, ms."""
    before = "lag(causes) OVER (PARTITION BY task ORDER BY at_ms) before"
    steps = marks.selectExpr("task", "at_ms", spans.sql, "causes", before)
    counted = steps.where(f"at_ms > {first_ms}").selectExpr("*", "explode(causes) (cause, ms)")
    return grouped(counted, "task span cause", "sum(greatest(ms - coalesce(try_element_at(before, cause), 0), 0)) ms")


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
    """Return task, band (index in AGE_BANDS_S, or one past its end), targets, oldest_s."""
    band = " + ".join(f"int(age_s >= {bound})" for bound in AGE_BANDS_S)
    return grouped(waits.selectExpr("*", f"{band} band"), "task band", "sum(targets) targets", "max(age_s) oldest_s")
