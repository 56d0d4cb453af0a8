"""Records of an outcome topic and a journal over them, without servers."""

from collections.abc import Sequence
from pathlib import Path

from backends.settings import PulsarSettings
from dispatcher.ports import StoredRecord
from dispatcher.wire.outcome import Mixed, Named, OutcomeRecord, Outcomes, Run, encode_record
from spark_jobs.journal.landing import Landed, Lander, Landing
from spark_jobs.journal.log import CommitChange, JournalLog
from spark_jobs.journal.outcome_topics import TopicSpan
from tests.contract.registry_records import position

AT_MS = 1_700_000_000_000
DAY = "2023-11-14"
DAY_MS = 86_400_000


def stored(records: Sequence[OutcomeRecord | bytes], first: int = 0) -> list[StoredRecord]:
    bodies = [record if isinstance(record, bytes) else encode_record(record) for record in records]
    return [StoredRecord(position(first + index), body, "") for index, body in enumerate(bodies)]


def outcomes(
    *parts: Run | Mixed | Named, task: str = "t", app: str = "shop", at_ms: int = AT_MS, latency_ms: int = 5
) -> Outcomes:
    runs = [part for part in parts if isinstance(part, Run)]
    mixed = [part for part in parts if isinstance(part, Mixed)]
    named = [part for part in parts if isinstance(part, Named)]
    return Outcomes(1, task, "w.1", at_ms, "push", runs, mixed, app, latency_ms, named)


class Topic:
    """One outcome topic and what a journal makes of it."""

    def __init__(self, tables: Path, records: Sequence[OutcomeRecord | bytes]) -> None:
        self.records = stored(records)
        self.log = JournalLog(tables)

    def land(self, count: int) -> Landed | None:
        """Land the next `count` records without a commit; None if there are none."""
        state = self.log.read()
        after = state.cursors.get("0", "")
        wanted = [record for record in self.records if record.position > after][:count]
        if not wanted:
            return None
        span = TopicSpan(0, after, wanted[-1].position)
        tag = f"{state.number + 1:010d}"
        landing = Landing(self.log.root, PulsarSettings(), span, tuple(state.states.get("0", ())), tag)
        lander = Lander(landing)
        lander.take(wanted)
        return lander.finish()

    def commit(self, landed: Landed) -> None:
        change = CommitChange({"0": landed.cursor}, {"0": landed.state}, landed.files)
        self.log.append(self.log.read(), change, AT_MS)
