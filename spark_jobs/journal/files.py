"""The journal's Parquet files: their columns, and what writes them.

Rows of outcomes are parted by day (UTC) and app: `outcomes/day=YYYY-MM-DD/app=APP/`; both are in the path alone. An
app's name is escaped there as Hive and Spark do it (`%2F`).
"""

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.journal.log import TableFile, sync
from spark_jobs.journal.outcome_rows import ROWS
from spark_jobs.session.folders import folder_name

OUTCOMES = "outcomes"
CLOSES = "closes"
TASKS = "tasks"
INVALID_TARGETS = "invalid_targets"
NO_APP = "__HIVE_DEFAULT_PARTITION__"
"""Of records that do not tell the app: those of before it was in them. Read as null."""
TIME = pa.timestamp("us", tz="UTC")
OUTCOME_FILE = pa.schema([field for field in ROWS if field.name != "app"])
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
"""All targets of the task that have no row in outcomes have this outcome. reason: why, if the task was
stopped for one."""
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
"""What one record of the control topic says of a task; null for what it says nothing of. record: its position.
targets, refused, digest, writers: of the seal. state, ended_at, the counts and reason (why it failed): of the end."""
INVALID_FILE = pa.schema([ROWS.field(name) for name in ("target", "channel", "app", "at", "reason", "task")])
"""A target that a provider said is dead, as often as it said so. They are rows of outcomes as well; here they are all
together, since each ingestion leaves them out."""
SCHEMAS: Mapping[str, pa.Schema] = {
    OUTCOMES: OUTCOME_FILE,
    CLOSES: CLOSE_FILE,
    TASKS: TASK_FILE,
    INVALID_TARGETS: INVALID_FILE,
}
_COMPRESSION = "zstd"


class FileWriter:
    """Writes one new file. What is not closed is no file of the journal: no commit names it."""

    def __init__(self, root: Path, table: str, tag: str, day: str = "", app: str = "") -> None:
        """root: the journal's folder. tag: what the file's name begins with; the rest makes it unique."""
        parts = [f"day={day}", f"app={folder_name(app)}"] if table == OUTCOMES else []
        folder = root.joinpath(table, *parts)
        folder.mkdir(parents=True, exist_ok=True)
        self._root, self._table, self._day, self._app = root, table, day, app
        self._path = folder / f"{tag}-{secrets.token_hex(6)}.parquet"
        self._rows = 0
        self._names = SCHEMAS[table].names
        self._writer = pq.ParquetWriter(self._path, SCHEMAS[table], compression=_COMPRESSION)

    @property
    def rows(self) -> int:
        return self._rows

    @property
    def size(self) -> int:
        """Bytes, of what has been written out."""
        return self._path.stat().st_size

    def write(self, rows: pa.RecordBatch | pa.Table) -> None:
        self._rows += rows.num_rows
        if isinstance(rows, pa.RecordBatch):
            rows = pa.Table.from_batches([rows])
        self._writer.write_table(rows.select(self._names), row_group_size=rows.num_rows or None)

    def close(self) -> TableFile:
        self._writer.close()
        sync(self._path)
        name = self._path.relative_to(self._root).as_posix()
        return TableFile(self._table, name, self._rows, self.size, self._day, self._app)


def write_rows(root: Path, table: str, tag: str, rows: Sequence[Mapping[str, Any]]) -> list[TableFile]:
    """A file of a few rows; none of none."""
    if not rows:
        return []
    writer = FileWriter(root, table, tag)
    writer.write(pa.Table.from_pylist(rows, schema=SCHEMAS[table]))
    return [writer.close()]
