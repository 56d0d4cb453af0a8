"""The journal's tables as DataFrames, each as its newest commit left it.

>>> outcomes(spark, tables, since="2026-11-20").where("outcome = 'failed'").groupBy("app").count()

tables: the folder of all tables, as a path, a URL or a spark_jobs.storage.folder.Folder, which has the keys of a store.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from dispatcher.model.flow_pause import FlowPause, flow_parts
from spark_jobs.journal.files import CLOSES, INVALID_TARGETS, OUTCOMES, SCHEMAS, TASKS, journal_table
from spark_jobs.session.failures import JobFailed, translated
from spark_jobs.session.servers import flow_entries
from spark_jobs.storage.folder import Place
from spark_jobs.storage.frames import frame_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@contextmanager
def reading(tables: Place) -> Iterator[None]:
    """Translate errors as spark_jobs.session.failures.translated does, and find the file that could not be read.

    Raises Malformed with the file's name if a job fails because a file of the journal is not a Parquet file: Spark does
    not always tell which.
    """
    try:
        with translated():
            yield
    except JobFailed:
        for name in SCHEMAS:
            journal_table(tables, name).read().check_files()
        raise


def outcome_rows(tables: Place) -> int:
    """Return the number of outcomes in the journal."""
    return journal_table(tables, OUTCOMES).read().rows


def outcomes(spark: "SparkSession", tables: Place, since: str = "", until: str = "") -> "DataFrame":
    """Return a row for each target that has a final outcome: the first one.

    since, until: days (UTC), both inclusive. The columns are those of spark_jobs.journal.outcome_rows.ROWS, and day.
    app is null where records did not contain it.
    """
    state = journal_table(tables, OUTCOMES).read()
    files = [file for file in state.files if since <= file.partition["day"] <= (until or "9")]
    return frame_of(spark, state.table, files)


def closes(spark: "SparkSession", tables: Place) -> "DataFrame":
    """Return the tasks that were closed as a whole (cancelled, stopped, expired).

    The outcome is that of all their targets without a row in outcomes.
    """
    return _rows(spark, tables, CLOSES)


def tasks(spark: "SparkSession", tables: Place) -> "DataFrame":
    """Return a row for each task, with the latest known value of each column.

    Null: targets, refused, digest and writers before the seal; state, ended_at and the counts before the end; and
    values that the control topic no longer had when the journal began.
    """
    from pyspark.sql import functions as f

    facts = _rows(spark, tables, TASKS)
    known = [name for name in facts.columns if name not in ("task", "record")]
    last = [f.max_by(name, f.when(f.col(name).isNotNull(), f.col("record"))).alias(name) for name in known]
    return facts.groupBy("task").agg(*last)


def invalid_targets(
    spark: "SparkSession", tables: Place, *, flows: Mapping[str, FlowPause] | None = None
) -> "DataFrame":
    """Return the targets that a provider reported as dead, once per report; `fairlane ingest` leaves them out.

    Reports of a flow that is or was suspected to have a wrong environment are left out until an operator confirms them.

    died_at is the provider's time of death, or that of the record where the provider says none. flows: the last entry
    of each flow (spark_jobs.session.servers); None: ask Redis, whose address is found as for a write. Raises
    Unreachable if it does not answer.
    """
    from pyspark.sql import functions as f

    state = journal_table(tables, INVALID_TARGETS).read()
    if flows is None:
        flows = flow_entries(spark) if state.files else {}
    rows = _without_doubted(frame_of(spark, state.table, state.files), flows)
    return rows.withColumn("died_at", f.coalesce("died_at", "at"))


def _without_doubted(rows: "DataFrame", flows: Mapping[str, FlowPause]) -> "DataFrame":
    """Leave out the reports of FlowPause.doubts."""
    from pyspark.sql import functions as f

    seen_ms = f.unix_millis(f.col("at"))
    for flow, entry in flows.items():
        doubted = [seen_ms.between(first_ms, last_ms) for first_ms, last_ms in entry.doubted_spans()]
        if doubted:
            channel, app = flow_parts(flow)
            is_ours = (f.col("channel") == channel) & f.col("app").eqNullSafe(app)
            rows = rows.where(~(is_ours & reduce(or_, doubted)))
    return rows


def _rows(spark: "SparkSession", tables: Place, name: str) -> "DataFrame":
    state = journal_table(tables, name).read()
    return frame_of(spark, state.table, state.files)
