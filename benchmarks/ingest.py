"""Measures how long a table of millions of rows takes to become a task, beside the same job that writes Parquet."""

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.resources import resident_mib
from benchmarks.stage import Stage, stage
from dispatcher.model.errors import FairlaneError
from fairlane.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_jobs.ingest.job import IngestOptions

LOOK_EVERY_S = 0.5
DOUBLES, BAD = 100, 200
"""One row in this many."""
TARGET = "substr(sha2(cast({number} as string), 256), 1, 60)"


@dataclass(frozen=True)
class Table:
    """The table and the session that reads it."""

    rows: int
    """Rows, with targets of 60 characters and one variable; 1 % doubles, 0.5 % bad."""
    master: str
    memory: str


@dataclass
class Memory:
    """Maximum resident memory, in MiB."""

    jvm: float = 0.0
    """Spark's JVM."""
    python: float = 0.0
    """Spark's largest Python worker."""
    ended: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        while not self.ended.wait(LOOK_EVERY_S):
            for pid, command in processes():
                with suppress(OSError, IndexError):  # it may have ended meanwhile
                    if "org.apache.spark.deploy.SparkSubmit" in command:
                        self.jvm = max(self.jvm, resident_mib(pid))
                    elif "pyspark.worker" in command:
                        self.python = max(self.python, resident_mib(pid))


@contextmanager
def memory() -> Iterator[Memory]:
    """Watch memory while the block runs."""
    seen = Memory()
    thread = threading.Thread(target=seen.watch, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        seen.ended.set()
        thread.join()


def processes() -> Iterator[tuple[int, str]]:
    """Yield id and command line of the processes on this machine."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):
                yield int(folder.name), (folder / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")


def make_table(spark: "SparkSession", rows: int, folder: Path, target: str = TARGET) -> str:
    """Write a table; the same number gives the same rows. `target`: an SQL expression of {number}."""
    good = target.format(number=f"if(id % {DOUBLES} = {DOUBLES - 1}, id - 1, id)")
    spark.range(0, rows, 1, 8).selectExpr(
        f"if(id % {BAD} = 1, concat('bad ', id), {good}) target",
        "concat('name-', id % 100000) name",
    ).write.parquet(str(folder))
    return str(folder)


def options_of(scene: Stage, audience: str, tables: Path) -> "IngestOptions":
    from spark_jobs.ingest.audience import TableSource
    from spark_jobs.ingest.job import IngestOptions
    from spark_jobs.session.servers import values_of
    from spark_jobs.source.task_options import parse_options

    task = {"id": "ingested", "app": "bench", "tier": "high", "channel": "null", "message": '{"body": "Hi {name}"}'}
    made = parse_options({**values_of(scene.settings), **task, "expected_targets": "1000000", "chunk": "500"})
    return IngestOptions(task=made, audience=TableSource(audience), tables=tables)


def write_parquet(spark: "SparkSession", options: "IngestOptions", folder: Path) -> float:
    """Return the seconds that the same transformation takes when its good rows go to Parquet."""
    from spark_jobs.ingest.audience import read_table
    from spark_jobs.ingest.job import transform

    began_s = time.monotonic()
    transform(read_table(spark, options.audience), options).where("reason is null").write.parquet(str(folder))
    took_s = time.monotonic() - began_s
    shutil.rmtree(folder)
    return took_s


def check(scene: Stage, accepted: int) -> None:
    """Raise FairlaneError unless the task is sealed with exactly these targets."""
    view = scene.client.task("ingested").progress()
    if not view.sealed or view.targets.total != accepted:
        raise FairlaneError(f"The task has {view.targets.total:,} targets; {accepted:,} were ingested.")


def run(settings: Settings, table: Table, say: Callable[[str], None]) -> dict[str, float]:
    """Do one run: make the table, write it as Parquet through the same transformation, and ingest it."""
    from spark_jobs.ingest.job import ingest
    from spark_jobs.session.session import SessionSettings, make_session

    with stage(settings, say) as scene:
        spark = make_session(
            SessionSettings(
                app_name="fairlane bench ingest",
                master=table.master,
                driver_memory=table.memory,
                executor_memory=table.memory,
            )
        )
        try:
            options = options_of(scene, make_table(spark, table.rows, scene.folder / "audience"), scene.folder)
            say(f"a table of {table.rows:,} rows is made")
            parquet_s = write_parquet(spark, options, scene.folder / "good")
            say(f"written as Parquet in {parquet_s:.1f} s")
            with memory() as seen:
                began_s = time.monotonic()
                done = ingest(spark, options, lambda _: None)
                ingest_s = time.monotonic() - began_s
            check(scene, done.counts.accepted)
        finally:
            spark.stop()
    return {
        "ingest_s": ingest_s,
        "rows_s": table.rows / ingest_s,
        "parquet_s": parquet_s,
        "speed_to_parquet": parquet_s / ingest_s,
        "accepted": done.counts.accepted,
        "left_out": done.counts.rows - done.counts.accepted,
        "driver_jvm_mib": seen.jvm,
        "python_worker_mib": seen.python,
    }
