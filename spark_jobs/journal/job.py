"""The outcome journal: each final outcome once, as Parquet, restartable at any moment.

A batch reads on from the end of the last commit and writes files. It commits them together with the new positions and
with the state that tells first outcomes from later ones. Without the commit, nothing of it counts.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from backends.pulsar import client as pulsar_client
from backends.settings import PulsarSettings
from dispatcher.clock import Clock
from dispatcher.model.errors import FairlaneError, Refused, Unreachable
from spark_jobs.journal.files import CLOSES, TASKS, write_rows
from spark_jobs.journal.landing import LandedSpan, Landing, land
from spark_jobs.journal.log import CommitChange, Conflict, JournalLog, JournalState
from spark_jobs.journal.outcome_topics import TopicSpan, connected, ends_of, last_positions
from spark_jobs.journal.tasks import CONTROL, read_tasks
from spark_jobs.session.failures import translated

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAX_RECORDS = 100_000
"""The maximum number of records of each topic in a batch.

Executors hold about ten thousand rows at a time, whatever it is.
"""
PAUSE_S = 5.0
"""The pause before the next try when Pulsar is unreachable."""

_log = logging.getLogger("fairlane.journal")


@dataclass(frozen=True)
class JournalOptions:
    """Settings of the journal."""

    tables: Path
    """The folder of all tables, which the driver and executors share."""
    pulsar: PulsarSettings
    max_records: int = MAX_RECORDS
    """The maximum number of records of each topic in a batch."""


@dataclass(kw_only=True)
class LandedBatch:
    """The result of one batch, or of several together."""

    number: int = 0
    records: int = 0
    outcomes: int = 0
    closes: int = 0
    tasks: int = 0
    """The number of tasks accepted."""
    malformed: int = 0
    files: int = 0
    more: bool = False
    """Whether there is more to read right away."""

    def __iadd__(self, other: "LandedBatch") -> "LandedBatch":
        for name in ("records", "outcomes", "closes", "tasks", "malformed", "files"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.number, self.more = other.number or self.number, other.more
        return self


OnBatch = Callable[[LandedBatch], None]
"""Called with each batch that was landed."""


class Journal:
    """Lands outcomes batch by batch. Only one may write to the same tables; a second one fails at its commit."""

    def __init__(self, spark: "SparkSession", options: JournalOptions, clock: Clock) -> None:
        self._spark = spark
        self._options = options
        self._clock = clock
        self._log = JournalLog(options.tables)

    def run_once(self, stop: threading.Event, on_batch: OnBatch = lambda _: None) -> LandedBatch:
        """Land everything stored by now, unless `stop` is set first. Raises FairlaneError."""
        until = self._ends()
        total = LandedBatch(more=True)
        while total.more and not stop.is_set():
            batch = self.step(until)
            total += batch
            on_batch(batch)
        return total

    def run(self, stop: threading.Event, every_s: float, on_batch: OnBatch = lambda _: None) -> LandedBatch:
        """Land outcomes until `stop` is set. Waits while Pulsar is unreachable."""
        total = LandedBatch()
        while not stop.is_set():
            try:
                batch = self.step(self._ends())
            except Unreachable as error:
                _log.warning("the journal waits: %s", error)
                stop.wait(PAUSE_S)
                continue
            total += batch
            on_batch(batch)
            if not batch.more:
                stop.wait(every_s)
        return total

    def _ends(self) -> dict[str, str]:
        """Return where the outcome topics end. Raises Refused if one ends before what was read of it."""
        read, pulsar = self._log.read().cursors, self._options.pulsar
        until = last_positions(pulsar)
        ends = {**until, **ends_of(pulsar, {CONTROL: pulsar_client.topics(pulsar).control})} if read else until
        for topic, end in ends.items():
            if end and end < read.get(topic, ""):  # a topic whose records are all too old has no end
                raise Refused(
                    f"The journal in {self._options.tables} has read more of a topic ({topic}) than this Pulsar has: "
                    "it is the journal of another Pulsar, or of data that was deleted.",
                    "Begin a new one: name another folder with --tables.",
                )
        return until

    def step(self, until: dict[str, str]) -> LandedBatch:
        """Land one batch, at most up to these positions. Commits nothing if nothing is new. Raises FairlaneError."""
        with self._log.writing():
            return self._step(until)

    def _step(self, until: dict[str, str]) -> LandedBatch:
        base, pulsar = self._log.read(), self._options.pulsar
        tag, after = f"{base.number + 1:010d}", base.cursors.get(CONTROL, "")
        with connected(pulsar) as client:
            tasks = read_tasks(client, pulsar, after)
        landed = self._land(base, until, tag)
        if not landed and tasks.cursor == after:
            return LandedBatch()
        files = [file for each in landed for file in each.files]
        files += write_rows(self._log.root, TASKS, tag, tasks.rows)
        cursors = {**{str(each.topic): each.cursor for each in landed}, CONTROL: tasks.cursor}
        state = self._commit(base, CommitChange(cursors, {str(each.topic): each.state for each in landed}, files))
        return LandedBatch(
            number=state.number,
            records=sum(each.records for each in landed),
            outcomes=sum(each.outcomes for each in landed),
            closes=sum(file.rows for file in files if file.table == CLOSES),
            tasks=tasks.accepted,
            malformed=sum(each.malformed for each in landed),
            files=len(files),
            more=any(each.more for each in landed) or tasks.more,
        )

    def _land(self, base: JournalState, until: dict[str, str], tag: str) -> list[LandedSpan]:
        """Land what is new up to these positions, with one Spark task per topic."""
        spans = [
            TopicSpan(int(topic), base.cursors.get(topic, ""), position, self._options.max_records)
            for topic, position in until.items()
        ]
        landings = [
            Landing(self._log, self._options.pulsar, span, tuple(base.states.get(str(span.topic), ())), tag)
            for span in spans
            if not span.empty
        ]
        if not landings:
            return []
        context = self._spark.sparkContext
        context.setJobDescription(f"journal, batch {tag}")
        with translated():
            answers: list[LandedSpan | FairlaneError] = context.parallelize(landings, len(landings)).map(land).collect()
        landed: list[LandedSpan] = []
        for answer in answers:
            if isinstance(answer, FairlaneError):
                raise answer
            landed.append(answer)
        return landed

    def _commit(self, base: JournalState, change: CommitChange) -> JournalState:
        while True:
            try:
                return self._log.append(base, change, self._clock.wall_ms())
            except Conflict:
                base = self._after(base)

    def _after(self, base: JournalState) -> JournalState:
        """Return the current state, if the commits since `base` only merged files. Raises Refused otherwise."""
        now = self._log.read()
        if (now.cursors, now.states) != (base.cursors, base.states):
            cause = f"Another `journal run` writes to {self._options.tables}."
            raise Refused(cause, "Only one may run; keep that one, or name another folder with --tables.") from None
        return now
