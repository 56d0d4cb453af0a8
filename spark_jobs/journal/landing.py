"""Land a span of one outcome topic as Parquet files.

Runs in an executor. Its files count once the driver has committed them; otherwise they are left behind, unused.
"""

import secrets
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from backends.files import write_durably
from backends.settings import PulsarSettings
from dispatcher.model.errors import FairlaneError, Malformed
from dispatcher.ports import StoredRecord
from dispatcher.wire.outcome import OUTCOME_NAMES, CloseTask, Outcomes, read_record
from spark_jobs.journal.files import CLOSES, INVALID_TARGETS, NO_APP, OUTCOMES, FileWriter, write_rows
from spark_jobs.journal.first_outcomes import FirstOutcomes, TaskState
from spark_jobs.journal.log import HOW_TO_FIX, JournalLog, TableFile
from spark_jobs.journal.outcome_rows import RowBuilder
from spark_jobs.journal.outcome_topics import TopicSpan, connected, read_span
from spark_jobs.journal.tasks import time_of

STATES = "state"
LONGEST_CHAIN = 20
"""The maximum number of files of a topic's state: a complete one, and one for the changes of each batch since."""
OPEN_FILES = 100
"""The maximum number of files that a landing has open. Each app and day has one of its own."""
_FORMAT = 1


@dataclass(frozen=True)
class Landing:
    """The input of `land`: a span of one topic, and the state known before it."""

    log: JournalLog
    pulsar: PulsarSettings
    span: TopicSpan
    state: tuple[str, ...]
    """The files that hold the topic's state."""
    tag: str
    """The prefix of the names of new files."""


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
    outcomes: int = 0
    """The number of rows of outcomes."""
    files: list[TableFile] = field(default_factory=list)
    state: list[str] = field(default_factory=list)
    """The files that hold the new state."""


class StoredState(msgspec.Struct, array_like=True):
    """One file of a topic's state."""

    format: int
    tasks: dict[str, TaskState]


def land(landing: Landing) -> LandedSpan | FairlaneError:
    """Land a span. Returns a FairlaneError instead of raising it, so that the driver can report it in one line."""
    try:
        with landing.log.writing(), connected(landing.pulsar) as client:
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
        self._first.restore(_read_state(landing.log.root / name) for name in landing.state)
        self._builders = defaultdict[tuple[str, str], RowBuilder](lambda: RowBuilder(landing.span.topic))
        """By day and app."""
        self._writers: dict[tuple[str, ...], FileWriter] = {}
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
        for key, builder in self._builders.items():
            if builder.rows:
                self._write(key, builder.take())
        landed.files += [writer.close() for writer in self._writers.values()]
        landed.outcomes = sum(file.rows for file in landed.files if file.table == OUTCOMES)
        landed.files += write_rows(self._landing.log.root, CLOSES, f"{self._landing.tag}-{landed.topic}", self._closes)
        landed.state = self._store() if landed.records else list(self._landing.state)
        return landed

    def _take(self, stored: StoredRecord) -> None:
        record = read_record(stored.body)
        match record:
            case None:
                self._landed.malformed += 1
            case Outcomes():
                key = (time_of(record.at_ms).date().isoformat(), record.app or NO_APP)
                for rows in self._builders[key].batches(record, stored.position, self._first.of(record)):
                    self._write(key, rows)
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

    def _write(self, key: tuple[str, str], rows: pa.RecordBatch) -> None:
        self._writer(OUTCOMES, *key).write(rows)
        invalid = rows.filter(pc.and_(pc.equal(rows["outcome"], "invalid"), pc.is_valid(rows["target"])))
        if invalid.num_rows:
            self._writer(INVALID_TARGETS).write(invalid)

    def _writer(self, table: str, *key: str) -> FileWriter:
        if (table, *key) not in self._writers:
            if len(self._writers) >= OPEN_FILES:
                self._landed.files.append(self._writers.pop(next(iter(self._writers))).close())
            tag = f"{self._landing.tag}-{self._landed.topic}"
            self._writers[table, *key] = FileWriter(self._landing.log.root, table, tag, *key)
        return self._writers[table, *key]

    def _store(self) -> list[str]:
        is_whole = len(self._landing.state) >= LONGEST_CHAIN
        tasks = self._first.everything() if is_whole else self._first.changes()
        if not tasks and not is_whole:
            return list(self._landing.state)
        name = f"{STATES}/{self._landing.tag}-{self._landed.topic}-{secrets.token_hex(6)}.msgpack"
        path = self._landing.log.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_durably(path, msgspec.msgpack.encode(StoredState(_FORMAT, tasks)))
        return [name] if is_whole else [*self._landing.state, name]


def _read_state(path: Path) -> dict[str, TaskState]:
    try:
        stored = msgspec.msgpack.decode(path.read_bytes(), type=StoredState)
    except (OSError, msgspec.MsgspecError) as error:
        raise Malformed(f"{path} cannot be read: {error}.", HOW_TO_FIX) from None
    return stored.tasks
