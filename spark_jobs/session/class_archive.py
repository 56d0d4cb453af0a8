"""Archive Spark's classes as Java loads and verifies them: a session on this machine then starts with half the work.

    python -m spark_jobs.session.class_archive    # once for an installation; a minute, and 180 MB beside the packages

The file fits one Java and one folder of Spark's jars. If either has changed, Java starts without the file.
"""

import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backends.extras import Missing
from lab.synthetic import backlog as synthetic_backlog
from lab.synthetic import journal as synthetic_journal
from spark_jobs.backlog.facts import ReportOptions
from spark_jobs.backlog.job import report
from spark_jobs.ingest.audience import TableSource, read_table
from spark_jobs.ingest.job import IngestOptions, dry_run, transform
from spark_jobs.reconcile.job import ReconcileScope, given_audience, reconcile
from spark_jobs.session.session import SILENT, SessionSettings, archive, make_session
from spark_jobs.source.task_options import parse_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TARGETS, _SNAPSHOTS = 1_000, 20
_MADE_S = 1_700_000_000


def make_archive() -> None:
    """Start a session, run jobs of Fairlane's, and archive the classes they used.

    Raises Missing if Java makes no archive.
    """
    file = archive()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        made = Path(folder) / file.name
        options = f'"-XX:ArchiveClassesAtExit={made}" -XX:TieredStopAtLevel=1 {SILENT}'
        conf = {"spark.driver.extraJavaOptions": options, "spark.sql.shuffle.partitions": "2"}
        spark = make_session(
            SessionSettings(app_name="class archive", master="local[2]", driver_memory="1g", servers={}, conf=conf)
        )
        _exercise(spark, Path(folder))
        _end(spark)
        if not made.exists():
            raise Missing(
                "This Java wrote no archive of Spark's classes.",
                "Nothing to do: everything works without it, but starts slower.",
            )
        made.rename(file)


def _exercise(spark: "SparkSession", folder: Path) -> None:
    """Run jobs on small tables."""
    at = datetime.fromtimestamp(_MADE_S, UTC)
    tables = folder / "tables"
    audience = synthetic_journal.make_tables(tables, synthetic_journal.SyntheticJournal(_TARGETS, planted=2), at)
    given = given_audience(spark, read_table(spark, TableSource(str(audience))), tables, synthetic_journal.TASK)
    reconcile(spark, ReconcileScope(tables, synthetic_journal.TASK), given, 1)
    task = {"id": "a", "app": "a", "tier": "high", "message": "a"}
    options = IngestOptions(task=parse_options(task), audience=TableSource(str(audience)), tables=tables)
    dry_run(spark, options)
    spark.read.parquet(str(audience)).write.csv(str(tables / "csv"), header=True)
    table = read_table(spark, TableSource(str(tables / "csv"), "csv"))
    transform(table, options).write.parquet(str(tables / "checked"))
    tables = folder / "backlog"
    synthetic_backlog.make_tables(
        tables, synthetic_backlog.SyntheticBacklog(_TARGETS, tasks=4, snapshots=_SNAPSHOTS), at
    )
    report(spark, ReportOptions(tables, 0), _MADE_S * 1000)


def _end(spark: "SparkSession") -> None:
    """Wait until Java has ended and written its archive."""
    gateway: Any = spark.sparkContext._gateway
    spark.stop()
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    make_archive()
