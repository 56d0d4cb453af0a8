"""Find the stored snapshots of the backlog, choose among them, and read them as long rows: one per task or lane."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from dispatcher.model.errors import NotFound
from spark_jobs.backlog.snapshot_files import FOLDER, SCHEMA
from spark_jobs.journal.tables import unreadable
from spark_jobs.session.frames import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HOW_TO_RECORD = "Run `fairlane backlog snapshot` beside the workers for a while."
DIMENSIONS = ("tier", "app", "channel")
TIMELINE_FIELDS = ("task", *DIMENSIONS, "created_ms", "start_ms", "published")
"""The fields needed of tasks over time: few, since there are many rows."""
STATE_FIELDS = (*TIMELINE_FIELDS, "state", "held", "weight", "cap", "in_flight", "retrying", "lane", "causes")
_COUNTS = ("published", "sent", "invalid", "failed", "expired", "cancelled")
_LAST_HOUR_MS, _LAST_MINUTE_MS = 3_600_000, 60_000


def snapshot_days(tables: Path, since_ms: int) -> list[Path]:
    """Return the folders of days since then that hold snapshots. Raises NotFound if there are none."""
    folder, since = (tables / FOLDER).resolve(), datetime.fromtimestamp(since_ms / 1000, UTC)
    first = f"day={since:%Y-%m-%d}"
    days = sorted(day for day in folder.glob("day=*") if day.name >= first and any(day.glob("[!_]*.parquet")))
    if not days:
        raise NotFound(f"{folder} holds no snapshots since {since:%Y-%m-%d %H:%M} UTC.", HOW_TO_RECORD)
    return days


@dataclass(frozen=True)
class Snapshots:
    """The snapshots to use, by file.

    Opening a file takes Spark longer than reading its content, and a day has 288. So Spark opens only those with
    snapshots that are asked for.
    """

    files: Mapping[Path, Sequence[int]]
    """The times (ms) of the snapshots to use in each file."""

    @cached_property
    def times(self) -> list[int]:
        """Return the times of all snapshots, in order."""
        return sorted(at_ms for times in self.files.values() for at_ms in times)

    def at(self, spark: "SparkSession", times: Sequence[int]) -> "DataFrame":
        """Return a row for each snapshot at one of these times: spark_jobs.backlog.snapshot_files.SCHEMA, and at_ms."""
        files = [f"file://{path}" for path, held in self.files.items() if not set(times).isdisjoint(held)]
        schema = spark_schema(SCHEMA)
        rows = spark.read.schema(schema).parquet(*files).selectExpr("*", "unix_millis(at) at_ms").where(is_among(times))
        # Files have statistics on `at`, so a range lets Spark skip rows outside it.
        return rows.where(f"at between timestamp_millis({min(times)}) and timestamp_millis({max(times)})")

    def tasks(
        self, spark: "SparkSession", times: Sequence[int], fields: Sequence[str] = STATE_FIELDS, column: str = "tasks"
    ) -> "DataFrame":
        """Return a row for each task of each of these snapshots. column: `tasks` (live) or `ended`.

        Columns: at_ms, the fields, and numbers of targets: worked (sent, invalid or failed), settled (these, and
        expired or cancelled), pending.
        """
        # Spark reads only the fields that are named one by one; after `inline(tasks)` it would read all.
        read = ", ".join(f"{column}.{name}" for name in dict.fromkeys((*fields, *_COUNTS)))
        rows = self.at(spark, times).selectExpr("at_ms", f"inline(arrays_zip({read}))")
        worked, settled = "sent + invalid + failed worked", "worked + expired + cancelled settled"
        return rows.selectExpr("at_ms", *fields, worked, settled, "published - settled pending")

    def lanes(self, spark: "SparkSession", at_ms: int) -> "DataFrame":
        """Return a row for each lane, or partition of one, of a snapshot: lane, partition, backlog, consumers."""
        return self.at(spark, [at_ms]).selectExpr(
            "inline(arrays_zip(lanes.lane, lanes.partition, lanes.backlog, lanes.consumers))"
        )


def is_among(times: Sequence[int]) -> str:
    """Return the condition, in SQL, that a row is at one of these times."""
    return f"at_ms in ({', '.join(f'{at_ms}L' for at_ms in times)})"


def find(tables: Path, since_ms: int) -> Snapshots:
    """Find the snapshots since then.

    Raises NotFound if there are none, and Malformed for a file that cannot be read.
    """
    paths = [path for day in snapshot_days(tables, since_ms) for path in sorted(day.glob("[!_]*.parquet"))]
    times_of = {path: [at_ms for at_ms in _times_in(path) if at_ms >= since_ms] for path in paths}
    files = {path: times for path, times in times_of.items() if times}
    if not files:
        since = datetime.fromtimestamp(since_ms / 1000, UTC)
        raise NotFound(f"There are no snapshots of the backlog since {since:%Y-%m-%d %H:%M} UTC.", HOW_TO_RECORD)
    return Snapshots(files)


def _times_in(path: Path) -> list[int]:
    try:
        with pq.ParquetFile(path) as file:
            at = file.read(columns=["at"], use_threads=False)["at"]
    except (OSError, pa.ArrowException) as error:
        raise unreadable(path, error) from None
    return at.cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64()).to_pylist()  # type: ignore[no-any-return]


# ----------------------------------------------------------------- which snapshots to use


class Times(NamedTuple):
    """The snapshots to use for each purpose."""

    all: list[int]
    chosen: list[int]
    """The snapshots that ages are computed from."""
    grid: list[int]
    """The snapshots for pictures."""
    heat: list[int]
    """The snapshots for the heat map: fewer of them."""
    recent_ms: int
    """The snapshot from which recent rates are counted."""
    last_ms: int


def choose(times: Sequence[int], *, max_times: int, bins: int, heat_bins: int, recent_s: float) -> Times:
    """Choose about `max_times` snapshots for ages, `bins` for pictures and `heat_bins` for the heat map.

    Ages are exact to the nearest snapshot of the last hour and of the minute before each time of the heat map, and to
    the other snapshots if there are not too many. Recent rates cover the whole time if it is shorter than recent_s.
    """
    times = sorted(times)
    last_ms = times[-1]
    before = [at_ms for at_ms in times if last_ms - at_ms >= recent_s * 1000]
    grid = thinned(times, bins)
    heat = thinned(grid, heat_bins)
    if len(times) <= max_times:
        chosen = list(times)
    else:
        near = [at_ms for at_ms in times if last_ms - at_ms <= _LAST_HOUR_MS or _just_before(heat, at_ms)]
        chosen = sorted({*thinned(times, max_times), *near[-max_times:], *grid})
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
