"""Measures jobs on synthetic tables of millions of rows: the report on a day's backlog, and reconciling a task."""

import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from benchmarks.ingest import memory
from benchmarks.resources import family_cpu_s
from dispatcher.model.errors import FairlaneError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lab.synthetic.journal import SyntheticJournal
    from spark_jobs.reconcile.job import Reconciled
    from spark_jobs.session.session import SessionSettings

T = TypeVar("T")


def measure_report(outcomes: int, master: str, seed: int, say: Callable[[str], None]) -> dict[str, float]:
    """Do one run of the report: 8,640 snapshots and the outcomes of a day."""
    from lab.synthetic.backlog import SyntheticBacklog, make_tables
    from spark_jobs.backlog.facts import ReportOptions
    from spark_jobs.backlog.job import report, session_settings

    with tempfile.TemporaryDirectory(prefix="fairlane-bench-") as name:
        folder, now = Path(name), datetime.now(UTC)
        size = SyntheticBacklog(outcomes=outcomes, seed=seed)
        say(f"making up {size.snapshots:,} snapshots of {size.tasks} tasks and {outcomes:,} outcomes")
        make_tables(folder, size, now)
        now_ms = int(now.timestamp() * 1000)
        options = ReportOptions(folder, now_ms - 86_400_000)
        made, figures = _timed("report", session_settings(master), lambda spark: report(spark, options, now_ms))
    assert made.journal_rows == outcomes
    return figures


def measure_reconcile(targets: int, master: str, seed: int, say: Callable[[str], None]) -> dict[str, float]:
    """Do one run: reconcile a task with its audience, in which some differences are planted."""
    from lab.synthetic.journal import TASK, SyntheticJournal, make_tables
    from spark_jobs.ingest.audience import TableSource, read_table
    from spark_jobs.reconcile.job import ReconcileScope, given_audience, reconcile
    from spark_jobs.session.session import SessionSettings, for_rows

    with tempfile.TemporaryDirectory(prefix="fairlane-bench-") as name:
        folder, size = Path(name), SyntheticJournal(targets, seed=seed)
        say(f"making up an audience of {targets:,} and its journal")
        audience = make_tables(folder, size, datetime.now(UTC))
        settings = SessionSettings(
            app_name="fairlane bench reconcile", master=master, driver_memory="1g", conf=for_rows(master, targets)
        )

        def job(spark: "SparkSession") -> "Reconciled":
            given = given_audience(spark, read_table(spark, TableSource(str(audience))), folder, TASK)
            return reconcile(spark, ReconcileScope(folder, TASK), given, sum(size.differences.values()) + 1)

        result, figures = _timed("reconcile", settings, job)
    check(result, size)
    return figures | {"differences": result.count}


def _timed(name: str, settings: "SessionSettings", job: Callable[["SparkSession"], T]) -> tuple[T, dict[str, float]]:
    """Return what the job returns, and its figures.

    These are the seconds of the session's start and of the job after it, the CPU of both, and the maximum memory of
    Spark's JVM.
    """
    from spark_jobs.session.session import make_session

    with memory() as seen:
        begun_cpu_s, begun_s = family_cpu_s(), time.monotonic()
        spark = make_session(settings)
        started_s = time.monotonic()
        try:
            result = job(spark)
            done_s, cpu_s = time.monotonic(), family_cpu_s() - begun_cpu_s
        finally:
            spark.stop()
    figures = {"session_s": started_s - begun_s, f"{name}_s": done_s - started_s, "cpu_s": cpu_s, "jvm_mib": seen.jvm}
    return result, figures


def check(result: "Reconciled", size: "SyntheticJournal") -> None:
    """Raise FairlaneError unless the task adds up and exactly the planted differences were found."""
    (each,) = result.sums
    counts: dict[str, int] = {}
    for row in result.differences:
        counts[row["difference"]] = counts.get(row["difference"], 0) + 1
    if not each.adds_up or each.totals["sent"] != size.targets:
        raise FairlaneError(f"Of {size.targets:,} targets {each.totals} were found.")
    if counts != size.differences or result.count != sum(counts.values()):
        raise FairlaneError(f"These differences were planted: {size.differences}; these were found: {counts}.")
