"""The journal's Delta tables, in the folder `journal` of all tables: their names and columns."""

from collections.abc import Mapping

import pyarrow as pa

from dispatcher.wire.outcome import OUTCOME_NAMES
from spark_jobs.journal.outcome_rows import ROWS
from spark_jobs.storage.delta import Table
from spark_jobs.storage.folder import Folder, Place

FOLDER = "journal"

OUTCOMES = "outcomes"
CLOSES = "closes"
TASKS = "tasks"
INVALID_TARGETS = "invalid_targets"
STATES = "states"
TIME = pa.timestamp("us", tz="UTC")
OUTCOME_FILE = pa.schema([field for field in ROWS if field.name != "died_at"])
OUTCOME_TABLE = OUTCOME_FILE.append(pa.field("day", pa.date32()))
"""day: of `at`, in UTC. Each day has a folder of its own."""
_CLOSE_TABLE = pa.schema([ROWS.field(name) for name in ("task", "outcome", "at", "topic", "record", "reason")])
"""A task that was closed as a whole: all its targets without a row in outcomes have this outcome.

reason: why the task was stopped, if a reason was given.
"""
_TASK_TABLE = pa.schema(
    [
        *(ROWS.field(name) for name in ("task", "record", "app")),
        *(pa.field(name, pa.string()) for name in ("tier", "channel")),
        pa.field("accepted_at", TIME),
        *(pa.field(name, pa.int64()) for name in ("expected", "targets", "refused")),
        pa.field("digest", pa.string()),
        pa.field("writers", pa.list_(pa.string())),
        pa.field("state", pa.string()),
        pa.field("ended_at", TIME),
        *(pa.field(name, pa.int64()) for name in OUTCOME_NAMES),
        ROWS.field("reason"),
    ]
)
"""The content of one control record about a task; null for anything it does not contain.

- record: its position.
- targets, refused, digest, writers: from the seal.
- state, ended_at, the counts, reason (why it failed): from the end.
"""
_INVALID_TABLE = pa.schema(
    [ROWS.field(name) for name in ("target", "channel", "app", "at", "reason", "task", "died_at")]
)
"""A target that a provider reported as dead, once per report.

These are rows of outcomes as well; this table keeps them together, since each ingestion leaves them out.
"""
_STATE_TABLE = pa.schema([("topic", pa.int32()), ("task", pa.string()), ("until", pa.string()), ("state", pa.binary())])
"""The state of FirstOutcomes after the record at `until` of an outcome topic: of a task's rows, the last one counts."""
SCHEMAS: Mapping[str, pa.Schema] = {
    OUTCOMES: OUTCOME_TABLE,
    CLOSES: _CLOSE_TABLE,
    TASKS: _TASK_TABLE,
    INVALID_TARGETS: _INVALID_TABLE,
    STATES: _STATE_TABLE,
}
_PARTITIONS = {OUTCOMES: "day", STATES: "topic"}


def journal_table(tables: Place, name: str) -> Table:
    """Return a table of the journal. tables: the folder of all tables."""
    folder = Folder.of(tables)
    return Table(folder / FOLDER / name, SCHEMAS[name], _PARTITIONS.get(name, ""))
