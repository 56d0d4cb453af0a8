"""Report the progress of a running Spark job."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.status import StatusTracker

_EVERY_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a job."""

    rows: int
    """Rows finished so far, reported as parts end."""
    parts_done: int
    """Parts done, of the stages known so far."""
    parts: int
    stage: int
    """The stage's number; 1 is the reading."""
    stage_seconds: float


@contextmanager
def watched(
    spark: "SparkSession", name: str, rows: Callable[[], int], on_progress: Callable[[Progress], None]
) -> Iterator[None]:
    """Report twice a second, from a thread of its own, the progress of the jobs that the block runs."""
    context = spark.sparkContext
    context.setJobGroup(name, name)
    stages, ended = _Stages(context.statusTracker(), name), threading.Event()

    def report() -> None:
        while not ended.wait(_EVERY_S):
            on_progress(stages.progress(rows()))

    thread = threading.Thread(target=report, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        context.setLocalProperty("spark.jobGroup.id", None)  # removes it
        context.setLocalProperty("spark.job.description", None)


class _Stages:
    """The stages of a group of jobs, as Spark's status tracker shows them."""

    def __init__(self, tracker: "StatusTracker", group: str) -> None:
        self._tracker = tracker
        self._group = group
        self._stage_s = time.monotonic()
        self._stage = 0

    def progress(self, rows: int) -> Progress:
        jobs = sorted(self._tracker.getJobIdsForGroup(self._group))
        infos = [self._tracker.getStageInfo(stage) for job in jobs[-1:] for stage in self._stages(job)]
        known = [info for info in infos if info is not None and info.numTasks > 0]
        now_s = time.monotonic()
        if len(jobs) != self._stage:
            self._stage, self._stage_s = len(jobs), now_s
        last = known[-1:] if len(jobs) > 1 else known  # stages shared with an earlier job are done
        return Progress(
            rows=rows,
            parts_done=sum(info.numCompletedTasks for info in last),
            parts=sum(info.numTasks for info in last),
            stage=self._stage,
            stage_seconds=now_s - self._stage_s,
        )

    def _stages(self, job: int) -> list[int]:
        info = self._tracker.getJobInfo(job)
        return [] if info is None else sorted(info.stageIds)
