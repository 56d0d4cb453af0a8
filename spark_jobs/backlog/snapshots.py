"""Find the snapshots of the backlog and the file each is in, so that only the files needed are opened.

Opening a file takes Spark longer than reading its content, and a day has 288 files.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from dispatcher.model.errors import NotFound
from spark_jobs.backlog.snapshot_files import FOLDER, SCHEMA
from spark_jobs.journal.tables import unreadable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HOW_TO_RECORD = "Run `fairlane backlog snapshot` beside the workers for a while."


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
    """The snapshots to use, by file."""

    files: Mapping[Path, Sequence[int]]
    """The times (ms) of the snapshots to use in each file."""

    @cached_property
    def times(self) -> list[int]:
        """Return the times of all snapshots, in order."""
        return sorted(at_ms for times in self.files.values() for at_ms in times)

    def frame(self, spark: "SparkSession", times: Sequence[int]) -> "DataFrame":
        """Return a row for each snapshot at one of these times: spark_jobs.backlog.snapshot_files.SCHEMA, and at_ms."""
        columns = ", ".join(f"{field.name} {_ddl(field.type)}" for field in SCHEMA)
        frame = spark.read.schema(columns).parquet(*(f"file://{path}" for path, _ in self._with(times)))
        return frame.where(self._is_at(times)).selectExpr("*", "unix_millis(at) at_ms")

    def _is_at(self, times: Sequence[int]) -> str:
        """Return the condition as SQL. Files have statistics on `at`, so a range lets Spark skip rows outside it."""
        first, last = min(times), max(times)
        between = f"at between timestamp_millis({first}) and timestamp_millis({last})"
        if len(set(times)) == bisect_right(self.times, last) - bisect_left(self.times, first):
            return between
        return f"{between} and unix_millis(at) in ({', '.join(f'{at_ms}L' for at_ms in times)})"

    def rows(self, times: Sequence[int], columns: Sequence[str]) -> list[dict[str, Any]]:
        """Return a few snapshots at these times, in order: these columns, and at_ms."""
        rows: list[dict[str, Any]] = []
        for path, here in self._with(times):
            table = _read(path, ["at", *columns])
            table = table.filter(pa.array([at_ms in here for at_ms in _at_ms(table)]))
            rows += [
                {"at_ms": at_ms, **_plain(row)}
                for at_ms, row in zip(_at_ms(table), table.select(columns).to_pylist(), strict=True)
            ]
        return sorted(rows, key=lambda row: row["at_ms"])

    def _with(self, times: Sequence[int]) -> Iterator[tuple[Path, set[int]]]:
        """Yield the files that hold any of these times, and which ones."""
        wanted_times = set(times)
        for path, held in self.files.items():
            if here := wanted_times.intersection(held):
                yield path, here


def find(tables: Path, since_ms: int) -> Snapshots:
    """Find the snapshots since then.

    Raises NotFound if there are none, and Malformed for a file that cannot be read.
    """
    files: dict[Path, list[int]] = {}
    for day in snapshot_days(tables, since_ms):
        for path in sorted(day.glob("[!_]*.parquet")):
            times = [at_ms for at_ms in _at_ms(_read(path, ["at"])) if at_ms >= since_ms]
            if times:
                files[path] = times
    if not files:
        since = datetime.fromtimestamp(since_ms / 1000, UTC)
        raise NotFound(f"There are no snapshots of the backlog since {since:%Y-%m-%d %H:%M} UTC.", HOW_TO_RECORD)
    return Snapshots(files)


def _read(path: Path, columns: Sequence[str]) -> pa.Table:
    try:
        with pq.ParquetFile(path) as file:
            return file.read(columns=list(columns), use_threads=False)
    except (OSError, pa.ArrowException) as error:
        raise unreadable(path, error) from None


def _at_ms(table: pa.Table) -> list[int]:
    return table["at"].cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64()).to_pylist()  # type: ignore[no-any-return]


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row with maps as dictionaries."""
    kinds = {name: SCHEMA.field(name).type for name in row}
    return {name: dict(value or ()) if pa.types.is_map(kinds[name]) else value for name, value in row.items()}


def _ddl(kind: pa.DataType) -> str:
    """Return Spark's name of a type."""
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{field.name}: {_ddl(field.type)}' for field in kind)}>"
    if pa.types.is_map(kind):
        return f"map<{_ddl(kind.key_type)}, {_ddl(kind.item_type)}>"
    if pa.types.is_list(kind):
        return f"array<{_ddl(kind.value_type)}>"
    if pa.types.is_timestamp(kind):
        return "timestamp"
    return {"int64": "bigint", "int32": "int", "bool": "boolean"}.get(str(kind), str(kind))
