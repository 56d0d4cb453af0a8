"""Measures how long the report on the backlog takes, over a synthetic day of snapshots and millions of outcomes."""

import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.ingest import memory
from benchmarks.resources import family_cpu_s


def run(outcomes: int, master: str, seed: int, say: Callable[[str], None]) -> dict[str, float]:
    """Do one run.

    Returns the seconds of the session's start and of the report after it, the CPU of both, and the maximum memory of
    Spark's JVM.
    """
    from lab.synthetic.backlog import SyntheticBacklog, make_tables
    from spark_jobs.backlog.facts import ReportOptions
    from spark_jobs.backlog.job import report, session_settings
    from spark_jobs.session.session import make_session

    with tempfile.TemporaryDirectory(prefix="fairlane-bench-") as name, memory() as seen:
        folder, now = Path(name), datetime.now(UTC)
        size = SyntheticBacklog(outcomes=outcomes, seed=seed)
        say(f"making up {size.snapshots:,} snapshots of {size.tasks} tasks and {outcomes:,} outcomes")
        make_tables(folder, size, now)
        now_ms = int(now.timestamp() * 1000)
        begun_cpu_s, begun_s = family_cpu_s(), time.monotonic()
        spark = make_session(session_settings(master, folder))
        started_s = time.monotonic()
        try:
            made = report(spark, ReportOptions(folder, now_ms - 86_400_000), now_ms)
            done_s, cpu_s = time.monotonic(), family_cpu_s() - begun_cpu_s
        finally:
            spark.stop()
    assert made.journal_rows == outcomes
    return {"session_s": started_s - begun_s, "report_s": done_s - started_s, "cpu_s": cpu_s, "jvm_mib": seen.jvm}
