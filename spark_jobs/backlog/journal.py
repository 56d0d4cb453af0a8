"""Aggregate the outcome journal for the report on the backlog: the work done over time, and the waits of targets.

One pass, and one Spark stage: each of its tasks reads a few columns of some files and returns sums, in Arrow. For ten
million outcomes this takes a seventh of the CPU of the same work as a query, which spends most of it on grouping by
text. Waits are counted in buckets, four to each doubling, so a quantile is at most a fifth too long.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.backlog.snapshots import DIMENSIONS
from spark_jobs.journal.files import OUTCOMES, journal_table
from spark_jobs.session.failures import translated
from spark_jobs.storage.data_files import DataFile, parquet_file
from spark_jobs.storage.folder import Folder, Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BUCKETS_A_DOUBLING = 4
NOT_KNOWN = "(not known)"
"""The app of outcomes from before records had it, and the tier of unknown tasks."""
COLUMNS = ("task", "channel", "app", "attempt", "outcome", "at", "latency_ms")
_COUNTS = ("done", "sent", "lost", "retried")
_ROWS_OF_A_PIECE = 1 << 21
WAITS_OF_APPS = 8
"""The number of apps whose waits are shown over time."""
DONE = pa.schema(
    [
        *((name, pa.string()) for name in ("task", "channel", "app")),
        ("bin", pa.int64()),
        ("bucket", pa.int32()),
        *((name, pa.int64()) for name in _COUNTS),
    ]
)
"""Targets of a task done in a time span (bin) after waits of a length (bucket)."""


class JournalQuery(NamedTuple):
    """The time spans, and the tasks, to sum up."""

    first_ms: int
    """The start of the first time span."""
    step_ms: int
    """The length of each time span."""
    tiers: Mapping[str, str]
    """The tier by task."""
    tasks: Sequence[str]
    """The tasks to report one by one."""


class JournalFacts(NamedTuple):
    """The facts from the journal, as rows of Sums."""

    asked: JournalQuery
    rows: int
    """The number of outcomes."""
    names: list[Mapping[str, Any]]
    tasks: list[Mapping[str, Any]]
    by_time: list[Mapping[str, Any]]
    """Only those of the apps with the most outcomes."""


class Sums(NamedTuple):
    """Sums over the journal. Each row has a bucket (of the waits) and the number of targets done.

    Rows of names and tasks also have the number of these that were sent, lost (invalid or failed) and retried (sent at
    a further attempt).
    """

    names: pa.Table
    """By dimension and name."""
    tasks: pa.Table
    """By task."""
    by_time: pa.Table
    """By bin (time span) and app."""


class RowGroups(NamedTuple):
    """Every `of`-th row group of a file, from the `number`-th on."""

    folder: Folder
    path: str
    """Below the folder."""
    number: int = 0
    of: int = 1


def journal_facts(spark: "SparkSession", tables: Place, asked: JournalQuery) -> JournalFacts | None:
    """Collect the facts from the journal; None if it has no outcomes from the days asked for."""
    state = journal_table(tables, OUTCOMES).read()
    day = f"{datetime.fromtimestamp(asked.first_ms / 1000, UTC):%Y-%m-%d}"
    files = [file for file in state.files if file.partition["day"] >= day]
    if not files:
        return None
    sums = read(spark, state.table.folder, files, asked)
    names = sums.names.to_pylist()
    of_apps = Counter[str]()
    for row in names:
        if row["dimension"] == "app":
            of_apps[row["name"]] += row["done"]
    apps = pa.array(sorted(of_apps, key=lambda app: -of_apps[app])[:WAITS_OF_APPS], pa.string())
    return JournalFacts(
        asked=asked,
        rows=of_apps.total(),
        names=names,
        tasks=sums.tasks.to_pylist(),
        by_time=sums.by_time.filter(pc.is_in(sums.by_time["app"], value_set=apps)).to_pylist(),
    )


def read(spark: "SparkSession", folder: Folder, files: Sequence[DataFile], asked: JournalQuery) -> Sums:
    """Sum up the journal. folder: of its outcomes. files: at least one of these. Raises FairlaneError."""
    pieces = [piece for file in files for piece in _pieces(folder, file)]
    context = spark.sparkContext
    count = min(len(pieces), max(4 * context.defaultParallelism, -(-sum(f.rows for f in files) // _ROWS_OF_A_PIECE)))
    context.setJobDescription("backlog report: the journal")
    with translated():
        shares = context.parallelize([pieces[part::count] for part in range(count)], count)
        return total_of(shares.map(partial(_read, asked)).collect())


def _pieces(folder: Folder, file: DataFile) -> Iterator[RowGroups]:
    """Return the pieces of a file: several tasks read a large one."""
    of = max(1, file.rows // _ROWS_OF_A_PIECE)
    return (RowGroups(folder, file.path, number, of) for number in range(of))


def _read(asked: JournalQuery, pieces: Sequence[RowGroups]) -> Sums:
    """Sum up some pieces. Runs in an executor, with one row group in memory at a time."""
    sums = [done(rows, asked) for piece in pieces for rows in _row_groups(piece)]
    return summed(pa.concat_tables(sums) if sums else DONE.empty_table(), asked)


def _row_groups(piece: RowGroups) -> Iterator[pa.Table]:
    with parquet_file(piece.folder, piece.path, read_dictionary=["task", "channel", "app", "outcome"]) as file:
        for group in range(piece.number, file.num_row_groups, piece.of):
            yield file.read_row_group(group, columns=list(COLUMNS), use_threads=False)


def done(outcomes: pa.Table, asked: JournalQuery) -> pa.Table:
    """Return the targets done of each task in each time span: rows of DONE.

    outcomes: COLUMNS of spark_jobs.journal.files.OUTCOME_FILE.
    """
    since_us = pc.subtract(outcomes["at"].cast(pa.int64()), asked.first_ms * 1000)
    wait_ms = pc.max_element_wise(outcomes["latency_ms"], 0)
    columns = {
        "task": outcomes["task"],
        "channel": outcomes["channel"],
        "app": outcomes["app"],
        "bin": pc.divide(since_us, asked.step_ms * 1000),
        "bucket": pc.floor(pc.multiply(pc.log2(pc.add(wait_ms, 1)), BUCKETS_A_DOUBLING)).cast(pa.int32()),
        "done": outcomes["attempt"],
        "sent": _is_one_of(outcomes["outcome"], "sent"),
        "lost": _is_one_of(outcomes["outcome"], "invalid", "failed"),
        "retried": pc.greater(outcomes["attempt"], 0).cast(pa.int8()),
    }
    rows = pa.table(columns).filter(pc.greater_equal(since_us, 0)).unify_dictionaries()
    counted = rows.group_by(["task", "channel", "app", "bin", "bucket"], use_threads=False).aggregate(
        [("done", "count"), *((name, "sum") for name in _COUNTS[1:])]
    )
    named = counted.rename_columns([name.partition("_")[0] for name in counted.column_names])
    rows_done = named.select(DONE.names).cast(DONE)
    app = DONE.get_field_index("app")
    return rows_done.set_column(app, "app", pc.fill_null(rows_done["app"], NOT_KNOWN))


def _is_one_of(outcome: pa.ChunkedArray, *names: str) -> pa.ChunkedArray:
    return pc.is_in(outcome, value_set=pa.array(names)).cast(pa.int8())


def summed(done_of: pa.Table, asked: JournalQuery) -> Sums:
    """Return the sums of rows of DONE, from any number of files."""
    task_index = pc.index_in(done_of["task"], value_set=pa.array(list(asked.tiers), pa.string()))
    tier = pc.fill_null(pc.take(pa.array(list(asked.tiers.values()), pa.string()), task_index), NOT_KNOWN)
    rows = done_of.append_column("tier", tier)
    chosen = rows.filter(pc.is_in(rows["task"], value_set=pa.array(asked.tasks, pa.string())))
    return Sums(
        pa.concat_tables(_named(kind, _sum(rows, [kind, "bucket"])) for kind in DIMENSIONS),
        _sum(chosen, ["task", "bucket"]),
        _sum(rows, ["bin", "app", "bucket"], ["done"]),
    )


def _named(dimension: str, sums: pa.Table) -> pa.Table:
    names = ["name" if column == dimension else column for column in sums.column_names]
    return sums.rename_columns(names).append_column("dimension", pa.repeat(dimension, len(sums)))


def total_of(parts: Sequence[Sums]) -> Sums:
    """Return the total of all parts."""
    names, tasks, by_time = (pa.concat_tables(tables) for tables in zip(*parts, strict=True))
    return Sums(
        _sum(names, ["dimension", "name", "bucket"]),
        _sum(tasks, ["task", "bucket"]),
        _sum(by_time, ["bin", "app", "bucket"], ["done"]),
    )


def _sum(rows: pa.Table, keys: Sequence[str], counts: Sequence[str] = _COUNTS) -> pa.Table:
    sums = rows.group_by(list(keys), use_threads=False).aggregate([(name, "sum") for name in counts])
    return sums.select([*keys, *(f"{name}_sum" for name in counts)]).rename_columns([*keys, *counts])


def quantile_s(buckets: Mapping[int, int], part: float) -> float | None:
    """Return the wait, in seconds, that this part of the targets did not exceed; None without targets."""
    ordered = sorted(buckets)
    seen = list(accumulate(buckets[bucket] for bucket in ordered))
    if not seen or not seen[-1]:
        return None
    bucket = ordered[bisect_left(seen, part * seen[-1])]
    return (2 ** ((bucket + 1) / BUCKETS_A_DOUBLING) - 1) / 1000
