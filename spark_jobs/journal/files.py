"""The journal's Parquet files: their columns, and their writer.

Rows of outcomes are partitioned by day (UTC) and app: `outcomes/day=YYYY-MM-DD/app=APP/`. Both are in the path only. An
app's name is escaped there as Hive and Spark do it (`%2F`).
"""

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from backends.files import sync
from spark_jobs.journal.log import TableFile
from spark_jobs.journal.outcome_rows import ROWS
from spark_jobs.session.folders import folder_name

OUTCOMES = "outcomes"
CLOSES = "closes"
TASKS = "tasks"
INVALID_TARGETS = "invalid_targets"
NO_APP = "__HIVE_DEFAULT_PARTITION__"
"""The app of records that do not contain one: those written before records had it. Read as null."""
TIME = pa.timestamp("us", tz="UTC")
OUTCOME_FILE = pa.schema([field for field in ROWS if field.name not in ("app", "died_at")])
CLOSE_FILE = pa.schema(
    [
        pa.field("task", pa.string(), nullable=False),
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("at", TIME, nullable=False),
        pa.field("topic", pa.int32(), nullable=False),
        pa.field("record", pa.string(), nullable=False),
        pa.field("reason", pa.string()),
    ]
)
"""A task that was closed as a whole: all its targets without a row in outcomes have this outcome.

reason: why the task was stopped, if a reason was given.
"""
TASK_FILE = pa.schema(
    [
        pa.field("task", pa.string(), nullable=False),
        pa.field("record", pa.string(), nullable=False),
        pa.field("app", pa.string()),
        pa.field("tier", pa.string()),
        pa.field("channel", pa.string()),
        pa.field("accepted_at", TIME),
        pa.field("expected", pa.int64()),
        pa.field("targets", pa.int64()),
        pa.field("refused", pa.int64()),
        pa.field("digest", pa.string()),
        pa.field("writers", pa.list_(pa.string())),
        pa.field("state", pa.string()),
        pa.field("ended_at", TIME),
        *(pa.field(name, pa.int64()) for name in ("sent", "invalid", "failed", "expired", "cancelled")),
        pa.field("reason", pa.string()),
    ]
)
"""The content of one control record about a task; null for anything it does not contain.

- record: its position.
- targets, refused, digest, writers: from the seal.
- state, ended_at, the counts, reason (why it failed): from the end.
"""
INVALID_FILE = pa.schema([ROWS.field(name) for name in ("target", "channel", "app", "at", "reason", "task", "died_at")])
"""A target that a provider reported as dead, once per report.

These are rows of outcomes as well; this table keeps them together, since each ingestion leaves them out.
"""
SCHEMAS: Mapping[str, pa.Schema] = {
    OUTCOMES: OUTCOME_FILE,
    CLOSES: CLOSE_FILE,
    TASKS: TASK_FILE,
    INVALID_TARGETS: INVALID_FILE,
}
_COMPRESSION = "zstd"


class FileWriter:
    """Writes one new file. A file that is not closed does not belong to the journal: no commit names it."""

    def __init__(self, root: Path, table: str, tag: str, day: str = "", app: str = "") -> None:
        """Open the file. root: the journal's folder. tag: the prefix of the file's name; the rest makes it unique."""
        parts = [f"day={day}", f"app={folder_name(app)}"] if table == OUTCOMES else []
        folder = root.joinpath(table, *parts)
        folder.mkdir(parents=True, exist_ok=True)
        self._root, self._table, self._day, self._app = root, table, day, app
        self._path = folder / f"{tag}-{secrets.token_hex(6)}.parquet"
        self._rows = 0
        self._names = SCHEMAS[table].names
        self._writer = pq.ParquetWriter(self._path, SCHEMAS[table], compression=_COMPRESSION)

    def write(self, rows: pa.RecordBatch | pa.Table) -> None:
        self._rows += rows.num_rows
        if isinstance(rows, pa.RecordBatch):
            rows = pa.Table.from_batches([rows])
        self._writer.write_table(rows.select(self._names), row_group_size=rows.num_rows or None)

    def close(self) -> TableFile:
        self._writer.close()
        sync(self._path)
        name, size = self._path.relative_to(self._root).as_posix(), self._path.stat().st_size
        return TableFile(table=self._table, path=name, rows=self._rows, size=size, day=self._day, app=self._app)


def write_rows(root: Path, table: str, tag: str, rows: Sequence[Mapping[str, Any]]) -> list[TableFile]:
    """Write a few rows to a file. Returns no file if there are no rows."""
    if not rows:
        return []
    writer = FileWriter(root, table, tag)
    writer.write(pa.Table.from_pylist(rows, schema=SCHEMAS[table]))
    return [writer.close()]
