"""Records of an outcome topic and a journal over them, without servers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from backends.settings import PulsarSettings
from dispatcher.ports import StoredRecord
from dispatcher.wire.control import Restated, encode_control
from dispatcher.wire.outcome import Mixed, Named, OutcomeRecord, Outcomes, ProviderIds, Run, encode_record
from spark_jobs.journal.files import NO_APP, write_rows
from spark_jobs.journal.landing import LandedSpan, Lander, Landing
from spark_jobs.journal.log import CommitChange, JournalLog
from spark_jobs.journal.outcome_topics import TopicSpan
from spark_jobs.journal.tasks import rows_of
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


class Topic:
    """One outcome topic and what a journal makes of it."""

    def __init__(self, tables: Path, records: Sequence[OutcomeRecord | bytes]) -> None:
        self.records = stored(records)
        self.log = JournalLog(tables)

    def land(self, count: int) -> LandedSpan | None:
        """Land the next `count` records without a commit; None if there are none."""
        state = self.log.read()
        after = state.cursors.get("0", "")
        wanted = [record for record in self.records if record.position > after][:count]
        if not wanted:
            return None
        span = TopicSpan(0, after, wanted[-1].position)
        tag = f"{state.number + 1:010d}"
        landing = Landing(self.log, PulsarSettings(), span, tuple(state.states.get("0", ())), tag)
        lander = Lander(landing)
        lander.take(wanted)
        return lander.finish()

    def commit(self, landed: LandedSpan) -> None:
        change = CommitChange({"0": landed.cursor}, {"0": landed.state}, landed.files)
        self.log.append(self.log.read(), change, AT_MS)


def rows(topic: Topic) -> list[dict[str, Any]]:
    """Return the rows of the outcomes, in the order of their commits."""
    import pyarrow.parquet as pq

    files = topic.log.read().table("outcomes")
    assert {file.app for file in files} <= {"shop", "bank", NO_APP}
    return [row for file in files for row in pq.ParquetFile(topic.log.root / file.path).read().to_pylist()]


def landed(tmp_path: Path, *records: Any, at_once: int = 100) -> Topic:
    topic = Topic(tmp_path, records)
    while (one := topic.land(at_once)) is not None:
        topic.commit(one)
    return topic


def brief(topic: Topic) -> list[tuple[int, int, str]]:
    return [(row["sequence"], row["position"], row["outcome"]) for row in rows(topic)]


def restated(record: Any) -> Restated:
    return Restated(1, position(0), msgspec.Raw(encode_control(record)))


def add(log: JournalLog, table: str, *rows: Mapping[str, Any]) -> None:
    """Commit these rows of a table."""
    log.append(log.read(), CommitChange(added=write_rows(log.root, table, "1", rows)), AT_MS)


def facts(*records: Any) -> list[dict[str, Any]]:
    return [row for one in stored([encode_control(record) for record in records]) for row in rows_of(*one[:2])]
