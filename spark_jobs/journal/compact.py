"""Merge small files of the journal. Readers go by commits: they see the old files or the new ones, never both."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from dispatcher.clock import Clock
from dispatcher.model.errors import Refused
from spark_jobs.journal.files import SCHEMAS, FileWriter
from spark_jobs.journal.log import CommitChange, Conflict, JournalLog, JournalState, TableFile
from spark_jobs.journal.tables import reading

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TARGET_BYTES = 128 * 1024 * 1024
UNNAMED_S = 3_600.0
"""How long a file that no commit has named is kept at least: a batch that is under way may name it at its end."""
_ROW_GROUP = 1 << 20


@dataclass(frozen=True)
class CompactOptions:
    """Settings of `compact`."""

    tables: Path
    target_bytes: int = TARGET_BYTES
    """The size to aim for; files of at least half of it are left alone."""
    keep_s: float = 3_600.0
    """How long files that no commit names any more are kept, for readers that began before."""


@dataclass(frozen=True)
class Compacted:
    """The result of `compact`."""

    files_before: int
    files_after: int
    merged: int
    """The number of files that were merged."""
    rows: int
    deleted: int
    """The number of unused files that were deleted."""


def compact(spark: "SparkSession", options: CompactOptions, clock: Clock) -> Compacted:
    """Merge small files and delete unused ones. Raises FairlaneError.

    It can be killed at any moment and run again, and may run beside `journal run`.
    """
    log = JournalLog(options.tables)
    with log.writing():
        return _compact(spark, log, options, clock)


def _compact(spark: "SparkSession", log: JournalLog, options: CompactOptions, clock: Clock) -> Compacted:
    before = log.read()
    merges = list(_merges(before, options.target_bytes))
    merged = [file for files in merges for file in files]
    after = before
    if merges:
        context = spark.sparkContext
        context.setJobDescription("journal: compact")
        merge = partial(_merge, log.root, f"{before.number + 1:010d}-c")
        with reading(options.tables):
            made = context.parallelize(merges, len(merges)).map(merge).collect()
        after = _commit(log, before, CommitChange(added=made, removed=[file.path for file in merged]), clock)
    rows, deleted = sum(file.rows for file in merged), sweep(log, options.keep_s, clock)
    return Compacted(len(before.files), len(after.files), len(merged), rows, deleted)


def _merges(state: JournalState, target_bytes: int) -> Iterator[list[TableFile]]:
    """Yield the files of one table, day and app to merge into one."""
    groups: defaultdict[tuple[str, str, str], list[TableFile]] = defaultdict(list)
    for file in state.files.values():
        if file.size < target_bytes // 2:
            groups[file.table, file.day, file.app].append(file)
    for files in groups.values():
        for some in _filled(sorted(files, key=lambda file: file.path), target_bytes):
            if len(some) > 1:
                yield some


def _filled(files: Sequence[TableFile], target_bytes: int) -> Iterator[list[TableFile]]:
    some: list[TableFile] = []
    for file in files:
        if some and sum(each.size for each in some) + file.size > target_bytes:
            yield some
            some = []
        some.append(file)
    if some:
        yield some


def _merge(root: Path, tag: str, files: Sequence[TableFile]) -> TableFile:
    """Merge files into one. Runs in an executor, with one row group of rows in memory at a time."""
    first = files[0]
    writer = FileWriter(root, first.table, tag, first.day, first.app)
    held: list[pa.RecordBatch] = []
    rows = 0
    for file in files:
        for batch in pq.ParquetFile(root / file.path).iter_batches(batch_size=1 << 16):
            held.append(_as_written_now(batch, SCHEMAS[first.table]))
            rows += batch.num_rows
            if rows >= _ROW_GROUP:
                writer.write(pa.Table.from_batches(held))
                held, rows = [], 0
    if held:
        writer.write(pa.Table.from_batches(held))
    return writer.close()


def _as_written_now(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch of any version's file with the columns of today's."""
    columns = [
        batch.column(field.name) if field.name in batch.schema.names else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, names=schema.names).cast(schema)


def _commit(log: JournalLog, base: JournalState, change: CommitChange, clock: Clock) -> JournalState:
    while True:
        try:
            return log.append(base, change, clock.wall_ms())
        except Conflict:
            base = log.read()
            if not set(change.removed) <= set(base.files):
                raise Refused("Another `journal compact` put the same files together.", "Let it end.") from None


@dataclass(frozen=True)
class _Named:
    """The files that the commits name, and the commits that are not needed any more."""

    kept: set[str]
    """The files named by the current state or by recent commits."""
    once: set[str]
    """The files that earlier commits name."""
    needless: list[int]
    """The commits that neither the current state nor recent readers need."""


def sweep(log: JournalLog, keep_s: float, clock: Clock) -> int:
    """Delete files that no commit of the last keep_s names, and commits the current state does not need.

    A file that no commit has named is kept for UNNAMED_S at least. Returns the number of files.
    """
    now_ms = clock.wall_ms()
    named = _named_since(log, now_ms - round(keep_s * 1000))
    count = 0
    files = [path for folder in (*SCHEMAS, "state") for path in (log.root / folder).rglob("*") if path.is_file()]
    for path in files:
        name = path.relative_to(log.root).as_posix()
        age_s = now_ms / 1000 - path.stat().st_mtime
        if name not in named.kept and age_s > (keep_s if name in named.once else max(keep_s, UNNAMED_S)):
            path.unlink(missing_ok=True)
            count += 1
    for number in named.needless:
        (log.root / "log" / f"{number:010d}.json").unlink(missing_ok=True)
    return count


def _named_since(log: JournalLog, oldest_ms: int) -> _Named:
    state = log.read()
    named = _Named({*state.files, *(name for files in state.states.values() for name in files)}, set(), [])
    is_whole = False
    for number in sorted(log.numbers(), reverse=True):
        if is_whole:
            named.needless.append(number)
            continue
        commit = log.commit(number)
        is_recent = commit.at_ms >= oldest_ms
        names = {file.path for file in commit.added} | set(commit.removed)
        names |= {name for files in commit.states.values() for name in files}
        (named.kept if is_recent else named.once).update(names)
        is_whole = not is_recent and commit.whole
    return named
