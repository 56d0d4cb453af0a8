"""Find the stored snapshots of the backlog, choose among them, and read them as long rows: one per task or lane."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from dispatcher.model.errors import NotFound
from spark_jobs.backlog.snapshot_files import snapshot_table
from spark_jobs.storage.data_files import DataFile
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
_TIMES = """
SELECT CAST(at AS BIGINT) / 1000 at_ms FROM rows
WHERE day >= '{day}' AND CAST(at AS BIGINT) / 1000 >= {since_ms}
ORDER BY 1
"""


@dataclass(frozen=True)
class Snapshots:
    """The snapshots to use."""

    table: Table
    files: Sequence[DataFile]
    times: Sequence[int]
    """The times (ms) of all of them, in order."""

    def at(self, spark: "SparkSession", times: Sequence[int]) -> "DataFrame":
        """Return a row for each snapshot at one of these times: spark_jobs.backlog.snapshot_files.SCHEMA, and at_ms."""
        rows = frame_of(spark, self.table, self.files).selectExpr("*", "unix_millis(at) at_ms").where(is_among(times))
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
    state, since = snapshot_table(tables).read(), datetime.fromtimestamp(since_ms / 1000, UTC)
    files = [file for file in state.files if file.partition["day"] >= f"{since:%Y-%m-%d}"]
    found = state.query(_TIMES.format(day=f"{since:%Y-%m-%d}", since_ms=since_ms))["at_ms"].to_pylist() if files else []
    if not found:
        folder = state.table.folder
        raise NotFound(f"{folder} holds no snapshots since {since:%Y-%m-%d %H:%M} UTC.", HOW_TO_RECORD)
    return Snapshots(state.table, files, found)


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
