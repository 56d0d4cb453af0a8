"""Report the progress of a running Spark job."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EVERY_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a job."""

    rows: int
    """Rows finished so far, reported as parts end."""
    parts_done: int
    """Parts done, of the stages known so far."""
    parts: int
    """All parts of the stages known so far."""
    stage: int
    """The stage's number; 1 is the reading."""
    seconds: float
    """Time since the job began."""
    stage_seconds: float
    """Time since the present stage began."""


@contextmanager
def watched(
    spark: "SparkSession", name: str, rows: Callable[[], int], on_progress: Callable[[Progress], None]
) -> Iterator[None]:
    """Report twice a second, from a thread of its own, the progress of the jobs that the block runs."""
    context = spark.sparkContext
    context.setJobGroup(name, name)
    watch = _Watch(spark, name, rows, on_progress)
    watch.start()
    try:
        yield
    finally:
        watch.end()
        context.setLocalProperty("spark.jobGroup.id", None)  # removes it
        context.setLocalProperty("spark.job.description", None)


class _Watch:
    def __init__(
        self, spark: "SparkSession", group: str, rows: Callable[[], int], on_progress: Callable[[Progress], None]
    ) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._group = group
        self._rows = rows
        self._on_progress = on_progress
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="progress", daemon=True)
        self._began_s = self._stage_s = time.monotonic()
        self._stage = 0

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(_EVERY_S):
            self._on_progress(self._now())

    def _now(self) -> Progress:
        jobs = sorted(self._tracker.getJobIdsForGroup(self._group))
        infos = [self._tracker.getStageInfo(stage) for job in jobs[-1:] for stage in self._stages(job)]
        known = [info for info in infos if info is not None and info.numTasks > 0]
        now_s = time.monotonic()
        if len(jobs) != self._stage:
            self._stage, self._stage_s = len(jobs), now_s
        last = known[-1:] if len(jobs) > 1 else known  # stages shared with an earlier job are done
        return Progress(
            rows=self._rows(),
            parts_done=sum(info.numCompletedTasks for info in last),
            parts=sum(info.numTasks for info in last),
            stage=self._stage,
            seconds=now_s - self._began_s,
            stage_seconds=now_s - self._stage_s,
        )

    def _stages(self, job: int) -> list[int]:
        info = self._tracker.getJobInfo(job)
        return [] if info is None else sorted(info.stageIds)
