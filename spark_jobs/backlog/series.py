"""The series of snapshots as DataFrames: when tasks were published and settled, and the age of the waiting targets.

All functions take DataFrames and return DataFrames. Times are ms of Redis' clock. Targets of a task are sent about in
the order in which they were published, so those that wait are the last ones. The time when as many targets were
published as are now settled therefore gives the age of the oldest waiting one.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

AGE_BANDS_S = (10, 60, 300, 900, 3_600, 14_400, 86_400)
"""The upper bounds of all age bands but the last."""
DIMENSIONS = ("tier", "app", "channel")
STATE_FIELDS = (
    "task", *DIMENSIONS, "state", "held", "created_ms", "start_ms", "weight", "cap", "published", "sent", "in_flight",
    "retrying", "lane", "causes",
)  # fmt: skip
TIMELINE_FIELDS = ("task", *DIMENSIONS, "created_ms", "start_ms", "published")
"""The fields needed of tasks over time: few, since there are many rows."""
_LAST_HOUR_MS, _LAST_MINUTE_MS = 3_600_000, 60_000
_COUNTS = ("published", "sent", "invalid", "failed", "expired", "cancelled")


class Times(NamedTuple):
    """The snapshots to use for each purpose."""

    all: list[int]
    """The times of all snapshots, in order."""
    chosen: list[int]
    """The snapshots that ages are computed from."""
    grid: list[int]
    """The snapshots for pictures."""
    heat: list[int]
    """The snapshots for the heat map: fewer of them."""
    recent_ms: int
    """The snapshot from which recent rates are counted."""
    last_ms: int
    """The newest snapshot."""


class Detail(NamedTuple):
    """The limits of `choose`."""

    max_times: int
    """The approximate maximum number of snapshots for ages."""
    bins: int
    """The number of snapshots for pictures."""
    heat_bins: int
    """The number of snapshots for the heat map."""
    recent_s: float
    """The length of the time span for recent rates."""


def choose(times: Sequence[int], detail: Detail) -> Times:
    """Choose the snapshots to use.

    Ages are exact to the nearest snapshot of the last hour and of the minute before each time of the heat map, and to
    the other snapshots if there are not too many. Recent rates cover the whole time if it is shorter than recent_s.
    """
    times = sorted(times)
    last_ms = times[-1]
    before = [at_ms for at_ms in times if last_ms - at_ms >= detail.recent_s * 1000]
    grid = thinned(times, detail.bins)
    heat = thinned(grid, detail.heat_bins)
    if len(times) <= detail.max_times:
        chosen = list(times)
    else:
        near = [at_ms for at_ms in times if last_ms - at_ms <= _LAST_HOUR_MS or _just_before(heat, at_ms)]
        chosen = sorted({*thinned(times, detail.max_times), *near[-detail.max_times :], *grid})
    return Times(
        all=times, chosen=chosen, grid=grid, heat=heat, recent_ms=before[-1] if before else times[0], last_ms=last_ms
    )


def _just_before(times: Sequence[int], at_ms: int) -> bool:
    index = bisect_left(times, at_ms)
    return index < len(times) and times[index] - at_ms <= _LAST_MINUTE_MS


def thinned(times: Sequence[int], max_times: int) -> list[int]:
    """Return the first time, and the last in each of `max_times` - 1 time spans of equal length."""
    if len(times) <= max_times:
        return list(times)
    first, last = times[0], times[-1]
    kept = {-(-(at - first) * (max_times - 1) // (last - first)): at for at in times}
    return list(kept.values())


def is_among(times: Sequence[int]) -> "Column":
    """Return a condition on at_ms: the row is at one of these times."""
    from pyspark.sql import functions as f

    return f.expr(f"at_ms in ({', '.join(f'{at_ms}L' for at_ms in times)})")


# ----------------------------------------------------------------- tasks over time


def states(snapshots: "DataFrame", fields: Sequence[str] = STATE_FIELDS) -> "DataFrame":
    """Return a row for each live task of each of these snapshots.

    Columns: at_ms, the fields, and numbers of targets: worked (sent, invalid or failed), settled (these, and expired or
    cancelled), pending.
    """
    return _tasks(snapshots, "tasks", fields)


def ends(snapshots: "DataFrame") -> "DataFrame":
    """Return a row for each task that ended by these snapshots, with the columns of `states`."""
    return _tasks(snapshots, "ended", STATE_FIELDS)


def _tasks(snapshots: "DataFrame", column: str, fields: Sequence[str]) -> "DataFrame":
    """Return rows from a list of structs.

    Naming the fields one by one makes Spark read only those from the files. After a plain `explode`, Spark reads all.
    """
    from pyspark.sql import functions as f

    read = ", ".join(f"{column}.{name}" for name in dict.fromkeys((*fields, *_COUNTS)))
    rows = snapshots.select("at_ms", f.explode(f.expr(f"arrays_zip({read})")).alias("t"))
    worked, settled = f.expr("t.sent + t.invalid + t.failed"), f.expr("t.expired + t.cancelled")
    return rows.select(
        "at_ms",
        *(f"t.{name}" for name in fields),
        worked.alias("worked"),
        (settled + worked).alias("settled"),
        (f.col("t.published") - settled - worked).alias("pending"),
    )


def changes(tasks: "DataFrame", recent_ms: int, last_ms: int) -> "DataFrame":
    """Return how each task changed between two snapshots.

    tasks: states at both, and those that ended between them. Columns:

    - those of states except causes, from the task's last state
    - arrived (published), done (worked): targets since the earlier snapshot, from zero if the task was not in it
    - spent: ms by cause since then
    - live: whether the task is still live
    """
    from pyspark.sql import functions as f

    none = f.create_map().cast("map<string,bigint>")
    kept = [name for name in tasks.columns if name not in ("task", "causes")]
    earlier_ms = f.when(f.col("at_ms") <= recent_ms, f.col("at_ms"))
    both = tasks.groupBy("task").agg(
        f.max_by(f.struct(*kept, "causes"), "at_ms").alias("now"),
        f.max_by(f.struct("published", "worked", "causes"), earlier_ms).alias("was"),
    )
    before = f.coalesce(f.col("was.causes"), none)
    spent = f.transform_values(
        f.coalesce(f.col("now.causes"), none),
        lambda cause, ms: ms - f.coalesce(f.try_element_at(before, cause), f.lit(0)),
    )
    return both.select(
        "task",
        *(f"now.{name}" for name in kept if name != "at_ms"),
        _grown("published").alias("arrived"),
        _grown("worked").alias("done"),
        spent.alias("spent"),
        (f.col("now.at_ms") >= last_ms).alias("live"),
    )


def _grown(name: str) -> "Column":
    from pyspark.sql import functions as f

    return f.greatest(f.col(f"now.{name}") - f.coalesce(f.col(f"was.{name}"), f.lit(0)), f.lit(0))


def by_dimension(states_at: "DataFrame") -> "DataFrame":
    """Return the backlog over time of each tier, app and channel: dimension, name, at_ms, backlog."""
    from pyspark.sql import functions as f

    names = f.explode(
        f.array(*(f.struct(f.lit(kind).alias("dimension"), f.col(kind).alias("name")) for kind in DIMENSIONS))
    )
    rows = states_at.select("at_ms", "pending", names.alias("of"))
    return rows.groupBy("of.dimension", "of.name", "at_ms").agg(f.sum("pending").alias("backlog"))


def growth(states_at: "DataFrame", first_ms: int, last_ms: int) -> "DataFrame":
    """Return the growth of each task that has a backlog at last_ms: task, backlog, grew, since_ms.

    since_ms: when it was last at its smallest. For a task that came after first_ms: when it was created, with no
    backlog.
    """
    from pyspark.sql import functions as f

    new = f.col("created_ms") > first_ms
    smallest = f.min(f.struct("pending", (-f.col("at_ms")).alias("earlier"))).alias("least")
    now = f.sum(f.when(f.col("at_ms") == last_ms, f.col("pending"))).alias("backlog")
    of_task = states_at.groupBy("task").agg(smallest, now, f.min("created_ms").alias("created_ms"))
    return of_task.where(f.col("backlog") > 0).select(
        "task",
        "backlog",
        (f.col("backlog") - f.when(new, 0).otherwise(f.col("least.pending"))).alias("grew"),
        f.when(new, f.col("created_ms")).otherwise(-f.col("least.earlier")).alias("since_ms"),
    )


# ----------------------------------------------------------------- ages


def cohorts(states_at: "DataFrame") -> "DataFrame":
    """Return the targets of a task that were published between two snapshots: task, low, high, at_ms.

    They are the targets after the first `low` ones, up to `high`. at_ms: the latest time when they were published; for
    those of the first snapshot that knows the task, the time when it was created.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    levels = states_at.groupBy("task", "published").agg(
        f.min("at_ms").alias("seen_ms"),
        f.min("created_ms").alias("created_ms"),
        f.max("start_ms").alias("start_ms"),
    )
    before = f.lag("published").over(Window.partitionBy("task").orderBy("published"))
    begun_ms = f.when(before.isNull(), f.least("created_ms", "seen_ms")).otherwise(f.col("seen_ms"))
    return levels.select(
        "task",
        f.coalesce(before, f.lit(0)).alias("low"),
        f.col("published").alias("high"),
        f.greatest(begun_ms, "start_ms").alias("at_ms"),
    ).where("high > low")


def waiting(cohorts_of: "DataFrame", states_at: "DataFrame") -> "DataFrame":
    """Return the waiting targets of each cohort at the time of each state: task, at_ms, targets, age_s.

    Targets scheduled for later do not wait yet.
    """
    from pyspark.sql import functions as f

    made = cohorts_of.withColumnRenamed("at_ms", "begun_ms")
    now = states_at.where("pending > 0").select("task", "at_ms", "settled", "published")
    met = now.join(made, "task").where("high > settled and low < published and begun_ms <= at_ms")
    targets = f.least("high", "published") - f.greatest("low", "settled")
    age_s = (f.col("at_ms") - f.col("begun_ms")) / 1000
    return met.select("task", "at_ms", targets.alias("targets"), age_s.alias("age_s"))


def banded(waits: "DataFrame") -> "DataFrame":
    """Return at_ms, task, band (index in AGE_BANDS_S, or one past its end), targets, oldest_s."""
    from pyspark.sql import functions as f

    band = sum((f.when(f.col("age_s") >= bound, 1).otherwise(0) for bound in AGE_BANDS_S), f.lit(0))
    return waits.groupBy("at_ms", "task", band.alias("band")).agg(
        f.sum("targets").alias("targets"), f.max("age_s").alias("oldest_s")
    )


def heat(bands: "DataFrame") -> "DataFrame":
    """Return at_ms, band, targets."""
    from pyspark.sql import functions as f

    return bands.groupBy("at_ms", "band").agg(f.sum("targets").alias("targets"))


def oldest(bands: "DataFrame", at_ms: int) -> "DataFrame":
    """Return task, oldest_s at one time."""
    from pyspark.sql import functions as f

    return bands.where(f.col("at_ms") == at_ms).groupBy("task").agg(f.max("oldest_s").alias("oldest_s"))


# ----------------------------------------------------------------- lanes


def skewed(lanes: "DataFrame", times: float, min_entries: int) -> "DataFrame":
    """Return lanes with a partition of at least `min_entries` entries and `times` the mean of the lane's partitions.

    lanes: a row for each lane or partition, as in a snapshot. Columns: lane, partitions, entries, most, partition
    (which holds the most), consumers (least of any partition).
    """
    from pyspark.sql import functions as f

    parted = lanes.where("partition >= 0").groupBy("lane")
    of_lane = parted.agg(
        f.count("*").alias("partitions"),
        f.sum("backlog").alias("entries"),
        f.max("backlog").alias("most"),
        f.max_by("partition", "backlog").alias("partition"),
        f.min("consumers").alias("consumers"),
    )
    return of_lane.where(
        (f.col("most") >= min_entries) & (f.col("most") * f.col("partitions") >= times * f.col("entries"))
    )
