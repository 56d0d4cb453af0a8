"""Records of an outcome topic and a journal over them, without servers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from backends.settings import PulsarSettings
from dispatcher.ports import StoredRecord
from dispatcher.wire.control import Restated, encode_control
from dispatcher.wire.outcome import Mixed, Named, OutcomeRecord, Outcomes, ProviderIds, Run, encode_record
from spark_jobs.journal.files import CLOSES, INVALID_TARGETS, OUTCOMES, SCHEMAS, STATES, journal_table
from spark_jobs.journal.job import create_journal
from spark_jobs.journal.landing import LandedSpan, Lander, Landing
from spark_jobs.journal.outcome_topics import TopicSpan
from spark_jobs.journal.tasks import rows_of
from spark_jobs.storage.data_files import parquet_file, write_rows
from spark_jobs.storage.delta import TableState
from spark_jobs.storage.folder import Folder, Place
from tests import records
from tests.contract.registry_records import position

AT_MS = 1_700_000_000_000
DAY = "2023-11-14"
DAY_MS = 86_400_000


def stored(log: Sequence[OutcomeRecord | bytes], first: int = 0) -> list[StoredRecord]:
    bodies = [record if isinstance(record, bytes) else encode_record(record) for record in log]
    return [StoredRecord(position(first + index), body, "") for index, body in enumerate(bodies)]


def ran(*, writer: str = "0", attempt: int = 0, first: int = 0, count: int = 1, size: int = 1, code: int = 0) -> Run:
    return Run(writer=writer, attempt=attempt, first=first, count=count, size=size, code=code)


def mixed(*, sequence: int, size: int, codes: bytes, positions: list[int] | None = None, attempt: int = 0) -> Mixed:
    return Mixed(writer="0", attempt=attempt, sequence=sequence, size=size, positions=positions, codes=codes)


def named_targets(*, sequence: int, positions: list[int] | None = None, **fields: Any) -> Named:
    return Named(writer="0", attempt=0, sequence=sequence, positions=positions, **fields)


def outcomes(*parts: Run | Mixed | Named | ProviderIds, **fields: Any) -> Outcomes:
    given: dict[str, Any] = {"app": "shop", "at_ms": AT_MS, "channel": "push", "latency_ms": 5}
    return records.outcomes(*parts, **given | fields)


COMMITS = (CLOSES, INVALID_TARGETS, OUTCOMES, STATES)
"""The tables of an outcome topic, in the order in which a batch commits to them."""


class Topic:
    """One outcome topic and what a journal makes of it."""

    def __init__(self, tables: Place, records: Sequence[OutcomeRecord | bytes]) -> None:
        self.records = stored(records)
        self.tables = Folder.of(tables)
        self.bases: dict[str, TableState] = {}
        create_journal(self.tables)

    def read(self, table: str = OUTCOMES) -> TableState:
        return journal_table(self.tables, table).read()

    def land(self, count: int) -> LandedSpan | None:
        """Land the next `count` records without a commit; None if there are none."""
        states = self.read(STATES)
        self.bases = {STATES: states} | {name: self.read(name) for name in COMMITS if name != STATES}
        after = states.cursor("0")
        wanted = [record for record in self.records if record.position > after][:count]
        if not wanted:
            return None
        span = TopicSpan(0, after, wanted[-1].position)
        landed = {name: base.cursor("0") for name, base in self.bases.items()}
        lander = Lander(Landing(self.tables, PulsarSettings(), span, states.files, landed))
        lander.take(wanted)
        return lander.finish()

    def commit(self, landed: LandedSpan, steps: int = len(COMMITS), first: int = 0) -> None:
        """Commit as a batch does that dies after this number of steps; the first ones have been done."""
        for name in COMMITS[first:steps]:
            if landed.files[name] or name == STATES:
                replaced = landed.replaced if name == STATES else ()
                self.bases[name].commit(landed.files[name], {"0": landed.cursor}, replaced)


def rows(topic: Topic, table: str = OUTCOMES) -> list[dict[str, Any]]:
    """Return the rows of a table, in the order of their records."""
    found: list[dict[str, Any]] = []
    state = topic.read(table)
    for file in state.files:
        with parquet_file(state.table.folder, file.path) as opened:
            found += opened.read().to_pylist()
    return sorted(found, key=lambda row: str(row.get("record")))


def landed(tmp_path: Path, *records: Any, at_once: int = 100) -> Topic:
    topic = Topic(tmp_path, records)
    while (one := topic.land(at_once)) is not None:
        topic.commit(one)
    return topic


def brief(topic: Topic) -> list[tuple[int, int, str]]:
    return [(row["sequence"], row["position"], row["outcome"]) for row in rows(topic)]


def restated(record: Any) -> Restated:
    return Restated(1, position(0), msgspec.Raw(encode_control(record)))


def add(tables: Path, table: str, *rows: Mapping[str, Any]) -> None:
    """Commit these rows of a table."""
    create_journal(Folder.of(tables))
    place = journal_table(tables, table)
    place.read().commit(write_rows(place.folder, SCHEMAS[table], rows))


def facts(*records: Any) -> list[dict[str, Any]]:
    return [row for one in stored([encode_control(record) for record in records]) for row in rows_of(*one[:2])]
