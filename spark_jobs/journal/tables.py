"""The journal's tables as DataFrames, each as one commit left it.

>>> outcomes(spark, tables, since="2026-11-20").where("outcome = 'failed'").groupBy("app").count()

Read them with these functions, not by folder. A folder also holds files of runs that were killed, and small files
beside the file they were merged into.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from dispatcher.model.errors import Malformed
from spark_jobs.journal.files import CLOSES, INVALID_TARGETS, OUTCOMES, TASKS
from spark_jobs.journal.log import JournalLog, TableFile
from spark_jobs.session.failures import JobFailed, translated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OUTCOME_COLUMNS = (
    "task string, channel string, writer string, sequence int, position int, attempt int, outcome string, "
    "at timestamp, latency_ms bigint, target string, reason string, topic int, record string, day date, app string"
)
CLOSE_COLUMNS = "task string, outcome string, at timestamp, topic int, record string, reason string"
INVALID_COLUMNS = "target string, channel string, app string, at timestamp, reason string, task string"
_COUNTS = ("sent", "invalid", "failed", "expired", "cancelled")
TASK_COLUMNS = (
    "task string, record string, app string, tier string, channel string, accepted_at timestamp, expected bigint, "
    "targets bigint, refused bigint, digest string, writers array<string>, state string, ended_at timestamp, "
    + ", ".join(f"{name} bigint" for name in _COUNTS)
    + ", reason string"
)


@contextmanager
def reading(tables: Path) -> Iterator[None]:
    """Translate errors as spark_jobs.session.failures.translated does, and find the file that could not be read.

    Raises Malformed with the file's name if a job fails because a file of the journal is not a Parquet file: Spark does
    not always tell which.
    """
    try:
        with translated():
            yield
    except JobFailed as error:
        raise _unreadable_file(tables) or error from error


def _unreadable_file(tables: Path) -> Malformed | None:
    log = JournalLog(tables)
    for path in log.read().files:
        try:
            pq.read_metadata(log.root / path)
        except (OSError, pa.ArrowException) as error:
            return unreadable(log.root / path, error)
    return None


def unreadable(path: Path, error: Exception) -> Malformed:
    """Return the error for a file that is not a Parquet file."""
    reason = str(error).partition(". ")[0].rstrip(".")
    return Malformed(f"{path} cannot be read: {reason}.", "Restore it, or remove it and run the job again.")


def outcome_rows(tables: Path) -> int:
    """Return the number of outcomes in the journal."""
    return sum(file.rows for file in JournalLog(tables).read().table(OUTCOMES))


def outcomes(
    spark: "SparkSession", tables: Path, since: str = "", until: str = "", apps: Sequence[str] = ()
) -> "DataFrame":
    """Return a row for each target that has a final outcome: the first one.

    since, until: days (UTC), both inclusive. apps: only these. The columns are those of
    spark_jobs.journal.outcome_rows.ROWS, and day. app is null where records did not contain it.
    """
    files = [
        file
        for file in JournalLog(tables).read().table(OUTCOMES)
        if since <= file.day <= (until or "9") and (not apps or file.app in apps)
    ]
    return _frame(spark, tables, OUTCOMES, files, OUTCOME_COLUMNS)


def closes(spark: "SparkSession", tables: Path) -> "DataFrame":
    """Return the tasks that were closed as a whole (cancelled, stopped, expired).

    The outcome is that of all their targets without a row in outcomes.
    """
    return _frame(spark, tables, CLOSES, JournalLog(tables).read().table(CLOSES), CLOSE_COLUMNS)


def tasks(spark: "SparkSession", tables: Path) -> "DataFrame":
    """Return a row for each task, with the latest known value of each column.

    Null: targets, refused, digest and writers before the seal; state, ended_at and the counts before the end; and
    values that the control topic no longer had when the journal began.
    """
    from pyspark.sql import functions as f

    facts = _frame(spark, tables, TASKS, JournalLog(tables).read().table(TASKS), TASK_COLUMNS)
    known = [name for name in facts.columns if name not in ("task", "record")]
    last = [f.max_by(name, f.when(f.col(name).isNotNull(), f.col("record"))).alias(name) for name in known]
    return facts.groupBy("task").agg(*last)


def invalid_targets(spark: "SparkSession", tables: Path) -> "DataFrame":
    """Return the targets that a provider reported as dead, once per report; `fairlane ingest` leaves them out.

    They are known if the setting journal.targets has them named, as it does by default.
    """
    files = JournalLog(tables).read().table(INVALID_TARGETS)
    return _frame(spark, tables, INVALID_TARGETS, files, INVALID_COLUMNS)


def _frame(spark: "SparkSession", tables: Path, table: str, files: Sequence[TableFile], columns: str) -> "DataFrame":
    if not files:
        return spark.createDataFrame([], columns)
    root = JournalLog(tables).root.resolve()
    paths = [f"file://{root / file.path}" for file in files]  # for all executors, whatever Spark's own file system is
    return spark.read.schema(columns).option("basePath", f"file://{root / table}").parquet(*paths)
