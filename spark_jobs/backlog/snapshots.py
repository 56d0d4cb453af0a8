"""Find the stored snapshots of the backlog, choose among them, and read them as long rows: one per task or lane."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from dispatcher.model.errors import NotFound
from spark_jobs.backlog.snapshot_files import snapshot_table
from spark_jobs.journal.tables import unreadable
from spark_jobs.storage.data_files import DataFile, parquet_file
from spark_jobs.storage.delta import Table
from spark_jobs.storage.folder import Place
from spark_jobs.storage.frames import frame_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HOW_TO_RECORD = "Run `fairlane backlog snapshot` beside the workers for a while."
DIMENSIONS = ("tier", "app", "channel")
TIMELINE_FIELDS = ("task", *DIMENSIONS, "created_ms", "start_ms", "published")
"""The fields needed of tasks over time: few, since there are many rows."""
STATE_FIELDS = (*TIMELINE_FIELDS, "state", "held", "weight", "cap", "in_flight", "retrying", "lane", "causes")
_COUNTS = ("published", "sent", "invalid", "failed", "expired", "cancelled")
_LAST_HOUR_MS = 3_600_000


def snapshot_files(tables: Place, since_ms: int) -> list[DataFile]:
    """Return the files of the days since then that hold snapshots. Raises NotFound if there are none."""
    state, since = snapshot_table(tables).read(), datetime.fromtimestamp(since_ms / 1000, UTC)
    files = [file for file in state.files if file.partition["day"] >= f"{since:%Y-%m-%d}"]
    if not files:
        folder = state.table.folder
        raise NotFound(f"{folder} holds no snapshots since {since:%Y-%m-%d %H:%M} UTC.", HOW_TO_RECORD)
    return files


@dataclass(frozen=True)
class Snapshots:
    """The snapshots to use, by file.

    Opening a file takes Spark longer than reading its content, and a day has 288. So Spark opens only those with
    snapshots that are asked for.
    """

    table: Table
    files: Sequence[tuple[DataFile, Sequence[int]]]
    """The files, and the times (ms) of the snapshots to use in each."""

    @cached_property
    def times(self) -> list[int]:
        """Return the times of all snapshots, in order."""
        return sorted(at_ms for _, times in self.files for at_ms in times)

    def at(self, spark: "SparkSession", times: Sequence[int]) -> "DataFrame":
        """Return a row for each snapshot at one of these times: spark_jobs.backlog.snapshot_files.SCHEMA, and at_ms."""
        files = [file for file, held in self.files if not set(times).isdisjoint(held)]
        rows = frame_of(spark, self.table, files).selectExpr("*", "unix_millis(at) at_ms").where(is_among(times))
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


def is_among(times: Sequence[int]) -> str:
    """Return the condition, in SQL, that a row is at one of these times."""
    return f"at_ms in ({', '.join(f'{at_ms}L' for at_ms in times)})"


def find(tables: Place, since_ms: int) -> Snapshots:
    """Find the snapshots since then.

    Raises NotFound if there are none, and Malformed for a file that cannot be read.
    """
    table = snapshot_table(tables)
    times_of = [(file, _times_in(table, file)) for file in snapshot_files(tables, since_ms)]
    recent = [(file, [at_ms for at_ms in times if at_ms >= since_ms]) for file, times in times_of]
    files = [(file, times) for file, times in recent if times]
    if not files:
        since = datetime.fromtimestamp(since_ms / 1000, UTC)
        raise NotFound(f"There are no snapshots of the backlog since {since:%Y-%m-%d %H:%M} UTC.", HOW_TO_RECORD)
    return Snapshots(table, files)


def _times_in(table: Table, file: DataFile) -> list[int]:
    try:
        with parquet_file(table.folder, file.path) as opened:
            at = opened.read(columns=["at"], use_threads=False)["at"]
    except (OSError, pa.ArrowException) as error:
        raise unreadable(table.folder / file.path, error) from None
    return [at_us // 1_000 for at_us in at.cast(pa.int64()).to_pylist()]


# ----------------------------------------------------------------- which snapshots to use


class Times(NamedTuple):
    """The snapshots to use for each purpose."""

    all: list[int]
    chosen: list[int]
    """The snapshots that ages are computed from."""
    grid: list[int]
    """The snapshots for pictures."""
    recent_ms: int
    """The snapshot from which recent rates are counted."""
    last_ms: int


def choose(times: Sequence[int], *, max_times: int, bins: int, recent_s: float) -> Times:
    """Choose about `max_times` snapshots for ages, and `bins` for pictures.

    Ages are exact to the nearest snapshot of the last hour, and to the other snapshots if there are not too many.
    Recent rates cover the whole time if it is shorter than recent_s.
    """
    times = sorted(times)
    last_ms = times[-1]
    before = [at_ms for at_ms in times if last_ms - at_ms >= recent_s * 1000]
    chosen, grid = list(times), thinned(times, bins)
    if len(times) > max_times:
        near = [at_ms for at_ms in times if last_ms - at_ms <= _LAST_HOUR_MS]
        chosen = sorted({*thinned(times, max_times), *near[-max_times:], *grid})
    return Times(all=times, chosen=chosen, grid=grid, recent_ms=before[-1] if before else times[0], last_ms=last_ms)


def thinned(times: Sequence[int], max_times: int) -> list[int]:
    """Return the first time, and the last in each of `max_times` - 1 time spans of equal length."""
    if len(times) <= max_times:
        return list(times)
    first, last = times[0], times[-1]
    kept = {-(-(at - first) * (max_times - 1) // (last - first)): at for at in times}
    return list(kept.values())
