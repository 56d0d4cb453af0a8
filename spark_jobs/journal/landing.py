"""Land a span of one outcome topic as Parquet files.

Runs in an executor. Its files count once the driver has committed them; otherwise they are left behind, unused.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from backends.settings import PulsarSettings
from dispatcher.model.errors import FairlaneError, Malformed
from dispatcher.ports import StoredRecord
from dispatcher.wire.outcome import OUTCOME_NAMES, CloseTask, Outcomes, read_record
from spark_jobs.journal.files import CLOSES, INVALID_TARGETS, OUTCOMES, SCHEMAS, STATES, journal_table
from spark_jobs.journal.first_outcomes import FirstOutcomes, TaskState
from spark_jobs.journal.outcome_rows import RowBuilder
from spark_jobs.journal.outcome_topics import TopicSpan, connected, read_span
from spark_jobs.journal.tasks import time_of
from spark_jobs.storage.data_files import DataFile, FileWriter, parquet_file, write_rows
from spark_jobs.storage.folder import Folder, reaching

LONGEST_CHAIN = 20
"""The maximum number of files of a topic's state: a complete one, and one for the changes of each batch since."""


@dataclass(frozen=True)
class Landing:
    """The input of `land`: a span of one topic, and what is known before it."""

    tables: Folder
    """The folder of all tables."""
    pulsar: PulsarSettings
    span: TopicSpan
    """Begins where the topic's state ends."""
    state: Sequence[DataFile] = ()
    """The files that hold the topic's state."""
    landed: Mapping[str, str] = field(default_factory=dict)
    """By table, the position up to which it has the topic's rows. A batch that died has landed some tables only."""


@dataclass(kw_only=True)
class LandedSpan:
    """The result of landing a span."""

    topic: int
    cursor: str
    """The position to read on from."""
    more: bool = False
    """Whether the span ended because it reached its limit of records."""
    records: int = 0
    malformed: int = 0
    files: dict[str, list[DataFile]] = field(default_factory=lambda: defaultdict(list))
    """The new files, by table."""
    replaced: Sequence[DataFile] = ()
    """The files of the state that its new ones replace."""

    def rows(self, table: str) -> int:
        return sum(file.rows for file in self.files[table])


def land(landing: Landing) -> LandedSpan | FairlaneError:
    """Land a span. Returns a FairlaneError instead of raising it, so that the driver can report it in one line."""
    try:
        with reaching(landing.tables, "written"), connected(landing.pulsar) as client:
            lander = Lander(landing)
            for records in read_span(client, landing.pulsar, landing.span):
                lander.take(records)
            return lander.finish()
    except FairlaneError as error:
        return error


class Lander:
    """Keeps the records of one topic that count, and writes them."""

    def __init__(self, landing: Landing) -> None:
        self._landing = landing
        self._first = FirstOutcomes()
        self._first.restore(_read_states(landing))
        self._builders = defaultdict[str, RowBuilder](lambda: RowBuilder(landing.span.topic))
        """By day."""
        self._writers: dict[tuple[str, str], FileWriter] = {}
        self._closes: list[dict[str, Any]] = []
        self._landed = LandedSpan(topic=landing.span.topic, cursor=landing.span.after)

    def take(self, records: Sequence[StoredRecord]) -> None:
        """Add the next records of the span."""
        self._landed.records += len(records)
        self._landed.cursor = records[-1].position
        for record in records:
            self._take(record)

    def finish(self) -> LandedSpan:
        """Write everything, once the whole span has been added."""
        landed, span = self._landed, self._landing.span
        landed.more = bool(span.max_records) and landed.records >= span.max_records
        if not landed.more:
            landed.cursor = span.until
        for day, builder in self._builders.items():
            if builder.rows:
                self._write(day, builder.take())
        self._write_new(CLOSES, pa.RecordBatch.from_pylist(self._closes, SCHEMAS[CLOSES]))
        for (table, _), writer in self._writers.items():
            landed.files[table] += writer.close()
        if landed.records:
            self._store()
        return landed

    def _take(self, stored: StoredRecord) -> None:
        record = read_record(stored.body)
        match record:
            case None:
                self._landed.malformed += 1
            case Outcomes():
                day = time_of(record.at_ms).date().isoformat()
                for rows in self._builders[day].batches(record, stored.position, self._first.of(record)):
                    self._write(day, rows)
            case CloseTask() if self._first.close(record):
                self._closes.append(
                    {
                        "task": record.task,
                        "outcome": OUTCOME_NAMES[record.code],
                        "at": time_of(record.at_ms),
                        "topic": self._landed.topic,
                        "record": stored.position,
                        "reason": record.reason or None,
                    }
                )
            case _:
                pass

    def _write(self, day: str, rows: pa.RecordBatch) -> None:
        self._write_new(OUTCOMES, rows, day=day)
        invalid = rows.filter(pc.and_(pc.equal(rows["outcome"], "invalid"), pc.is_valid(rows["target"])))
        self._write_new(INVALID_TARGETS, invalid)

    def _write_new(self, table: str, rows: pa.RecordBatch, **partition: str) -> None:
        """Write the rows that the table does not have yet."""
        landed = self._landing.landed.get(table, "")
        if landed > self._landing.span.after:
            rows = rows.filter(pc.greater(rows["record"], landed))
        key = table, partition.get("day", "")
        if key not in self._writers:
            place = journal_table(self._landing.tables, table)
            self._writers[key] = FileWriter(place.folder, place.schema, f"{self._landed.topic}-", **partition)
        self._writers[key].write(rows)

    def _store(self) -> None:
        """Write the state: what changed, or all of it if it has many files."""
        is_whole = len(self._landing.state) >= LONGEST_CHAIN
        tasks = self._first.everything() if is_whole else self._first.changes()
        self._landed.replaced = self._landing.state if is_whole else ()
        place, topic = journal_table(self._landing.tables, STATES), str(self._landed.topic)
        rows = state_rows(tasks, self._landed.cursor)
        self._landed.files[STATES] += write_rows(place.folder, place.schema, rows, f"{topic}-", topic=topic)


def state_rows(tasks: Mapping[str, TaskState], until: str) -> list[dict[str, Any]]:
    """Return rows of the table of states."""
    return [{"task": task, "until": until, "state": msgspec.msgpack.encode(state)} for task, state in tasks.items()]


def _read_states(landing: Landing) -> Iterator[dict[str, TaskState]]:
    """Yield the state of each task, the older ones first."""
    folder, rows = journal_table(landing.tables, STATES).folder, list[dict[str, Any]]()
    for file in landing.state:
        with parquet_file(folder, file.path) as opened:
            rows += opened.read().to_pylist()
    try:
        for row in sorted(rows, key=lambda row: str(row["until"])):
            yield {row["task"]: msgspec.msgpack.decode(row["state"], type=TaskState)}
    except msgspec.MsgspecError as error:
        raise Malformed(f"A state in {folder} cannot be read: {error}.", "Begin a new journal elsewhere.") from None
