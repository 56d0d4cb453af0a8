"""The outcome journal: each final outcome once, as Parquet, restartable at any moment.

A batch reads on from where the state of first outcomes ends, and writes files. Then it commits table by table, each
with the position up to which the table now has the rows, and the state last. If a batch dies on the way, the next one
reads the same records again and leaves out what a table has already.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from backends.pulsar import client as pulsar_client
from backends.settings import PulsarSettings
from dispatcher.model.errors import FairlaneError, Refused, Unreachable
from spark_jobs.journal.files import CLOSES, FOLDER, INVALID_TARGETS, OUTCOMES, SCHEMAS, STATES, TASKS, journal_table
from spark_jobs.journal.landing import LandedSpan, Landing, land
from spark_jobs.journal.outcome_topics import TopicSpan, connected, ends_of, last_positions
from spark_jobs.journal.tasks import CONTROL, TaskRows, read_tasks
from spark_jobs.session.failures import translated
from spark_jobs.storage.data_files import write_rows
from spark_jobs.storage.delta import Conflict, TableState
from spark_jobs.storage.folder import Folder, Place, reaching

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

    tables: Place
    """The folder of all tables: a path that the driver and executors share, or a URL."""
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

    def __init__(self, spark: "SparkSession", options: JournalOptions) -> None:
        self._spark = spark
        self._options = options
        self._tables = Folder.of(options.tables)
        self._batches = 0
        create_journal(self._tables)

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
        pulsar, until = self._options.pulsar, last_positions(self._options.pulsar)
        control = self._read(TASKS).cursor(CONTROL)
        ends = {**until, **ends_of(pulsar, {CONTROL: pulsar_client.topics(pulsar).control})} if control else until
        states = self._read(STATES)
        for topic, end in ends.items():
            read = control if topic == CONTROL else states.cursor(topic)
            if end and end < read:  # a topic whose records are all too old has no end
                raise Refused(
                    f"The journal in {self._tables} has read more of a topic ({topic}) than this Pulsar has: "
                    "it is the journal of another Pulsar, or of data that was deleted.",
                    "Begin a new one: name another folder with --tables.",
                )
        return until

    def step(self, until: dict[str, str]) -> LandedBatch:
        """Land one batch, at most up to these positions. Commits nothing if nothing is new. Raises FairlaneError."""
        states = self._read(STATES)  # first: a table read later has the rows up to the state's end, or more
        bases = {name: self._read(name) for name in SCHEMAS if name != STATES} | {STATES: states}
        after = bases[TASKS].cursor(CONTROL)
        with connected(self._options.pulsar) as client:
            tasks = read_tasks(client, self._options.pulsar, after)
        landed = self._land(bases, until)
        if not landed and tasks.cursor == after:
            return LandedBatch()
        try:
            self._commit(bases, tasks, landed)
        except Conflict as error:
            cause = f"Another `journal run` writes to {self._tables}."
            raise Refused(cause, "Only one may run; keep that one, or name another folder with --tables.") from error
        self._batches += 1
        return LandedBatch(
            number=self._batches,
            records=sum(each.records for each in landed),
            outcomes=sum(each.rows(OUTCOMES) for each in landed),
            closes=sum(each.rows(CLOSES) for each in landed),
            tasks=tasks.accepted,
            malformed=sum(each.malformed for each in landed),
            files=sum(len(files) for each in landed for files in each.files.values()) + bool(tasks.rows),
            more=any(each.more for each in landed) or tasks.more,
        )

    def _read(self, name: str) -> TableState:
        return journal_table(self._tables, name).read()

    def _land(self, bases: Mapping[str, TableState], until: dict[str, str]) -> list[LandedSpan]:
        """Land what is new up to these positions, with one Spark task per topic."""
        states = bases[STATES]
        landings = [
            Landing(
                self._tables,
                self._options.pulsar,
                TopicSpan(int(topic), states.cursor(topic), position, self._options.max_records),
                [file for file in states.files if file.partition["topic"] == topic],
                {name: base.cursor(topic) for name, base in bases.items()},
            )
            for topic, position in until.items()
        ]
        landings = [landing for landing in landings if not landing.span.empty]
        if not landings:
            return []
        context = self._spark.sparkContext
        context.setJobDescription(f"journal, batch {self._batches + 1}")
        with translated():
            answers: list[LandedSpan | FairlaneError] = context.parallelize(landings, len(landings)).map(land).collect()
        for failure in (answer for answer in answers if isinstance(answer, FairlaneError)):
            raise failure
        return [answer for answer in answers if isinstance(answer, LandedSpan)]

    def _commit(self, bases: Mapping[str, TableState], tasks: TaskRows, landed: Sequence[LandedSpan]) -> None:
        """Commit to each table that has new rows; the state is last, since the next batch reads on from there."""
        if tasks.cursor != bases[TASKS].cursor(CONTROL):
            table = bases[TASKS].table
            with reaching(table.folder, "written"):
                files = write_rows(table.folder, table.schema, tasks.rows)
            bases[TASKS].commit(files, {CONTROL: tasks.cursor})
        for name in (CLOSES, INVALID_TARGETS, OUTCOMES):
            spans = [each for each in landed if each.files[name]]
            if spans:
                files = [file for each in spans for file in each.files[name]]
                bases[name].commit(files, {str(each.topic): each.cursor for each in spans})
        if landed:
            files = [file for each in landed for file in each.files[STATES]]
            replaced = [file for each in landed for file in each.replaced]
            bases[STATES].commit(files, {str(each.topic): each.cursor for each in landed}, replaced)


def create_journal(tables: Folder) -> None:
    """Create the tables that are missing. Raises Refused if nothing can be written there; Unreachable."""
    if tables.is_local and (Path(tables.url) / FOLDER / "log").is_dir():
        raise Refused(
            f"{tables} holds a journal of an older version.",
            f"Name a new folder with --tables, and run `fairlane journal import {tables}`.",
        )
    for name in SCHEMAS:
        journal_table(tables, name).create()
