"""Measures how long a synthetic task of millions of targets takes to be reconciled with its audience."""

import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.ingest import memory
from benchmarks.resources import family_cpu_s
from dispatcher.model.errors import FairlaneError

if TYPE_CHECKING:
    from lab.synthetic.journal import SyntheticJournal
    from spark_jobs.reconcile.job import Reconciled


def run(targets: int, master: str, seed: int, say: Callable[[str], None]) -> dict[str, float]:
    """Do one run.

    Returns the seconds of the session's start and of reconciling after it, the CPU of both, and the maximum memory of
    Spark's JVM.
    """
    from lab.synthetic.journal import TASK, SyntheticJournal, make_tables
    from spark_jobs.ingest.audience import TableSource, read_table
    from spark_jobs.reconcile.job import ReconcileScope, given_audience, reconcile
    from spark_jobs.session.session import SessionSettings, for_rows, make_session

    with tempfile.TemporaryDirectory(prefix="fairlane-bench-") as name, memory() as seen:
        folder, size = Path(name), SyntheticJournal(targets, seed=seed)
        say(f"making up an audience of {targets:,} and its journal")
        audience = make_tables(folder, size, datetime.now(UTC))
        begun_cpu_s, begun_s = family_cpu_s(), time.monotonic()
        spark = make_session(
            SessionSettings(
                app_name="fairlane bench reconcile", master=master, driver_memory="1g", conf=for_rows(master, targets)
            )
        )
        started_s = time.monotonic()
        try:
            given = given_audience(spark, read_table(spark, TableSource(str(audience))), folder, TASK)
            result = reconcile(spark, ReconcileScope(folder, TASK), given, sum(size.differences.values()) + 1)
            done_s, cpu_s = time.monotonic(), family_cpu_s() - begun_cpu_s
        finally:
            spark.stop()
    check(result, size)
    return {
        "session_s": started_s - begun_s,
        "reconcile_s": done_s - started_s,
        "cpu_s": cpu_s,
        "differences": result.count,
        "jvm_mib": seen.jvm,
    }


def check(result: "Reconciled", size: "SyntheticJournal") -> None:
    """Raise FairlaneError unless the task adds up and exactly the planted differences were found."""
    (one,) = result.sums
    counts: dict[str, int] = {}
    for row in result.differences:
        counts[row["difference"]] = counts.get(row["difference"], 0) + 1
    if not one.adds_up or one.totals["sent"] != size.targets:
        raise FairlaneError(f"Of {size.targets:,} targets {one.totals} were found.")
    if counts != size.differences or result.count != sum(counts.values()):
        raise FairlaneError(f"These differences were planted: {size.differences}; these were found: {counts}.")
