"""The series of snapshots as DataFrames: what was published and settled of which task when, and how old what waits is.

All take DataFrames and give DataFrames. Times are ms of Redis' clock. Targets of a task are sent about
in the order in which they were published, so those that wait are the last ones: when so many were published as are
settled now tells how old the oldest of them is.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

AGE_BANDS_S = (10, 60, 300, 900, 3_600, 14_400, 86_400)
"""Upper bounds of all age bands but the last."""
DIMENSIONS = ("tier", "app", "channel")
STATE_FIELDS = (
    "task", *DIMENSIONS, "state", "held", "created_ms", "start_ms", "weight", "cap", "published", "sent", "in_flight",
    "retrying", "lane", "causes",
)  # fmt: skip
TIMELINE_FIELDS = ("task", *DIMENSIONS, "created_ms", "start_ms", "published")
"""What is needed of tasks over time: few, since there are many rows."""
_LAST_HOUR_MS, _LAST_MINUTE_MS = 3_600_000, 60_000
_COUNTS = ("published", "sent", "invalid", "failed", "expired", "cancelled")


class Times(NamedTuple):
    """Which snapshots are looked at. all: every one, in order; chosen: those from which ages are told; grid: those of
    pictures, and heat: fewer of them; recent_ms: the one from which rates of late are counted; last_ms: the newest."""

    all: list[int]
    chosen: list[int]
    grid: list[int]
    heat: list[int]
    recent_ms: int
    last_ms: int


class Detail(NamedTuple):
    """most: how many snapshots may be looked at for ages, about; bins, heat_bins: of pictures; recent_s: of how much of
    the past rates of late are."""

    most: int
    bins: int
    heat_bins: int
    recent_s: float


def choose(times: Sequence[int], detail: Detail) -> Times:
    """Ages are told to the nearest snapshot of the last hour and of the minute before each time of the heat map, and of
    others where there are not too many. Rates of late are of all there is, if that is less than recent_s."""
    times = sorted(times)
    last_ms = times[-1]
    before = [at_ms for at_ms in times if last_ms - at_ms >= detail.recent_s * 1000]
    grid = thinned(times, detail.bins)
    heat = thinned(grid, detail.heat_bins)
    if len(times) <= detail.most:
        chosen = list(times)
    else:
        near = [at_ms for at_ms in times if last_ms - at_ms <= _LAST_HOUR_MS or _just_before(heat, at_ms)]
        chosen = sorted({*thinned(times, detail.most), *near[-detail.most :], *grid})
    return Times(times, chosen, grid, heat, before[-1] if before else times[0], last_ms)


def _just_before(times: Sequence[int], at_ms: int) -> bool:
    place = bisect_left(times, at_ms)
    return place < len(times) and times[place] - at_ms <= _LAST_MINUTE_MS


def thinned(times: Sequence[int], most: int) -> list[int]:
    """The first of them, and the last in each of `most` - 1 stretches of the same length."""
    if len(times) <= most:
        return list(times)
    first, last = times[0], times[-1]
    kept = {-(-(at - first) * (most - 1) // (last - first)): at for at in times}
    return list(kept.values())


def is_among(times: Sequence[int]) -> "Column":
    """Of rows that have at_ms."""
    from pyspark.sql import functions as f

    return f.expr(f"at_ms in ({', '.join(f'{at_ms}L' for at_ms in times)})")


# ----------------------------------------------------------------- tasks over time


def states(found: "DataFrame", fields: Sequence[str] = STATE_FIELDS) -> "DataFrame":
    """A row for each live task of each of these snapshots: at_ms, the fields, and targets: worked (sent, invalid or
    failed), settled (these, and expired or cancelled), pending."""
    return _tasks(found, "tasks", fields)


def ends(found: "DataFrame") -> "DataFrame":
    """A row for each task that these snapshots say has ended, as in states."""
    return _tasks(found, "ended", STATE_FIELDS)


def _tasks(found: "DataFrame", column: str, fields: Sequence[str]) -> "DataFrame":
    """Of the structs in a list only those fields are read from the files that are used, if they are named one by one.
    (Of what `explode` makes, Spark reads all.)"""
    from pyspark.sql import functions as f

    read = ", ".join(f"{column}.{name}" for name in dict.fromkeys((*fields, *_COUNTS)))
    rows = found.select("at_ms", f.explode(f.expr(f"arrays_zip({read})")).alias("t"))
    worked, settled = f.expr("t.sent + t.invalid + t.failed"), f.expr("t.expired + t.cancelled")
    return rows.select(
        "at_ms",
        *(f"t.{name}" for name in fields),
        worked.alias("worked"),
        (settled + worked).alias("settled"),
        (f.col("t.published") - settled - worked).alias("pending"),
    )


def changes(tasks: "DataFrame", recent_ms: int, last_ms: int) -> "DataFrame":
    """How each task changed between two snapshots.

    tasks: states at both, and those that ended between them. Columns: those of states but causes, as it was last seen;
    arrived (published), done (worked): targets since the earlier snapshot, from nothing if it was not there; spent: ms
    by cause since then; live: whether it is still there.
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
    """Backlog over time of each tier, app and channel: dimension, name, at_ms, backlog."""
    from pyspark.sql import functions as f

    names = f.explode(
        f.array(*(f.struct(f.lit(kind).alias("dimension"), f.col(kind).alias("name")) for kind in DIMENSIONS))
    )
    rows = states_at.select("at_ms", "pending", names.alias("of"))
    return rows.groupBy("of.dimension", "of.name", "at_ms").agg(f.sum("pending").alias("backlog"))


def growth(states_at: "DataFrame", first_ms: int, last_ms: int) -> "DataFrame":
    """What grew of each task that has a backlog at last_ms: task, backlog, grew, since_ms.

    since_ms: when it last was at its smallest; of one that came after first_ms, when it was created, with nothing.
    """
    from pyspark.sql import functions as f

    new = f.col("created_ms") > first_ms
    least = f.min(f.struct("pending", (-f.col("at_ms")).alias("earlier"))).alias("least")
    now = f.sum(f.when(f.col("at_ms") == last_ms, f.col("pending"))).alias("backlog")
    of_task = states_at.groupBy("task").agg(least, now, f.min("created_ms").alias("created_ms"))
    return of_task.where(f.col("backlog") > 0).select(
        "task",
        "backlog",
        (f.col("backlog") - f.when(new, 0).otherwise(f.col("least.pending"))).alias("grew"),
        f.when(new, f.col("created_ms")).otherwise(-f.col("least.earlier")).alias("since_ms"),
    )


# ----------------------------------------------------------------- ages


def cohorts(states_at: "DataFrame") -> "DataFrame":
    """Targets of a task that were published between two snapshots: task, low, high, at_ms. They are those after the
    first `low` ones up to `high`; at_ms: when they were there at the latest; those of the first snapshot that knows the
    task, when it was created."""
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
    """What waits of each cohort at the time of each state: task, at_ms, targets, age_s. What is scheduled for later
    does not wait yet."""
    from pyspark.sql import functions as f

    made = cohorts_of.withColumnRenamed("at_ms", "begun_ms")
    now = states_at.where("pending > 0").select("task", "at_ms", "settled", "published")
    met = now.join(made, "task").where("high > settled and low < published and begun_ms <= at_ms")
    targets = f.least("high", "published") - f.greatest("low", "settled")
    age_s = (f.col("at_ms") - f.col("begun_ms")) / 1000
    return met.select("task", "at_ms", targets.alias("targets"), age_s.alias("age_s"))


def banded(waits: "DataFrame") -> "DataFrame":
    """at_ms, task, band (place in AGE_BANDS_S, or behind it), targets, oldest_s."""
    from pyspark.sql import functions as f

    band = sum((f.when(f.col("age_s") >= bound, 1).otherwise(0) for bound in AGE_BANDS_S), f.lit(0))
    return waits.groupBy("at_ms", "task", band.alias("band")).agg(
        f.sum("targets").alias("targets"), f.max("age_s").alias("oldest_s")
    )


def heat(bands: "DataFrame") -> "DataFrame":
    """at_ms, band, targets."""
    from pyspark.sql import functions as f

    return bands.groupBy("at_ms", "band").agg(f.sum("targets").alias("targets"))


def oldest(bands: "DataFrame", at_ms: int) -> "DataFrame":
    """task, oldest_s at a time."""
    from pyspark.sql import functions as f

    return bands.where(f.col("at_ms") == at_ms).groupBy("task").agg(f.max("oldest_s").alias("oldest_s"))


# ----------------------------------------------------------------- lanes


def skewed(lanes: "DataFrame", times: float, least: int) -> "DataFrame":
    """Lanes one of whose partitions holds `times` as much as they do in the mean, and at least so many entries.

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
    return of_lane.where((f.col("most") >= least) & (f.col("most") * f.col("partitions") >= times * f.col("entries")))
