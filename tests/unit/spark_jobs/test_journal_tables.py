"""The journal as Spark's tables: outcomes, ends, invalid targets and tasks."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dispatcher.model.flow_pause import FlowPause, PauseKind
from dispatcher.wire.control import ControlChange, Sealed
from dispatcher.wire.outcome import CloseTask, Outcome
from tests.contract.ledger_worlds import task_record
from tests.records import finished
from tests.virtual_clock import VirtualClock

pytest.importorskip("pyarrow")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

import pyarrow as pa

from spark_jobs.journal.compact import CompactOptions, _as_written_now, compact
from spark_jobs.journal.files import INVALID_FILE
from spark_jobs.journal.log import JournalLog
from spark_jobs.journal.tables import closes, invalid_targets, tasks
from spark_jobs.journal.tables import outcomes as outcome_table
from tests.unit.spark_jobs.journal_world import (
    AT_MS,
    DAY_MS,
    Topic,
    add,
    facts,
    landed,
    mixed,
    named_targets,
    outcomes,
    ran,
    restated,
)

pytestmark = pytest.mark.timeout(300)  # some run on Spark, whose first job takes long on a busy machine


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Topic:
    """A journal of two days in eleven files; the last record is stored twice."""
    records = [outcomes(ran(first=number, count=2), at_ms=AT_MS + number * DAY_MS // 10) for number in range(0, 20, 2)]
    closing = CloseTask(1, "t", int(Outcome.CANCELLED), AT_MS, "no credential")
    return landed(tmp_path_factory.mktemp("tables"), *records, records[-1], closing, at_once=1)


def test_the_tables_are_read_by_the_log(spark: "SparkSession", journal: Topic) -> None:
    tables = journal.log.root.parent
    found = outcome_table(spark, tables)
    assert found.count() == 20
    assert [row.app for row in found.select("app").distinct().collect()] == ["shop"]
    assert outcome_table(spark, tables, since="2023-11-15", until="2023-11-15").count() == 10
    assert outcome_table(spark, tables, apps=["bank"]).count() == 0
    closed = [(row.task, row.outcome, row.reason) for row in closes(spark, tables).collect()]
    assert closed == [("t", "cancelled", "no credential")]
    assert tasks(spark, tables).count() == 0


def test_what_a_provider_said_is_dead_stands_in_a_table_of_its_own(spark: "SparkSession", tmp_path: Path) -> None:
    codes = bytes((Outcome.SENT, Outcome.INVALID, Outcome.FAILED, Outcome.INVALID))
    reasons = ["unregistered", "no answer"]
    named = named_targets(sequence=5, positions=[1, 2], targets=["tok-1", "tok-2"], reasons=reasons)
    landed(tmp_path, outcomes(mixed(sequence=5, size=4, codes=codes), named), outcomes(ran(first=6, size=4)))
    (dead,) = invalid_targets(spark, tmp_path, flows={}).collect()
    found = (dead.target, dead.channel, dead.app, dead.reason, dead.task)
    assert found == ("tok-1", "push", "shop", "unregistered", "t")
    assert outcome_table(spark, tmp_path).where("outcome = 'invalid'").count() == 2  # one of them without a name
    assert invalid_targets(spark, tmp_path / "none").count() == 0


def test_an_invalid_target_has_a_time_of_death_and_comes_once_on_demand(spark: "SparkSession", tmp_path: Path) -> None:
    first = named_targets(sequence=5, targets=["tok-1", "tok-2"], died_ms=[AT_MS - 60_000, 0])
    again = named_targets(sequence=6, targets=["tok-1"], reasons=["still"], died_ms=[AT_MS - 1_000])
    landed(
        tmp_path,
        outcomes(ran(first=5, size=2, code=Outcome.INVALID), first),
        outcomes(ran(first=6, size=1, code=Outcome.INVALID), again),
    )
    died = {
        (row.target, row.reason): row.died_at.timestamp()
        for row in invalid_targets(spark, tmp_path, flows={}).collect()
    }
    now_s = AT_MS / 1000
    assert died == {("tok-1", None): now_s - 60, ("tok-2", None): now_s, ("tok-1", "still"): now_s - 1}
    latest = {row.target: row.reason for row in invalid_targets(spark, tmp_path, repeats=False, flows={}).collect()}
    assert latest == {"tok-1": "still", "tok-2": None}


def doubted_by(**fields: Any) -> dict[str, FlowPause]:
    return {"push/shop": FlowPause(**fields)}


@pytest.mark.parametrize(
    ("flows", "found"),
    [
        ({}, ["before", "within", "news"]),
        (doubted_by(kind=PauseKind.SUSPECT, since_ms=AT_MS + 60_000), ["before", "news"]),
        (doubted_by(kind=PauseKind.DOWN, since_ms=AT_MS + 60_000), ["before", "within", "news"]),
        (
            doubted_by(
                kind=PauseKind.ENDED, since_ms=AT_MS + 9**9, doubted_from_ms=AT_MS, doubted_to_ms=AT_MS + 120_000
            ),
            ["before", "news"],
        ),
        (doubted_by(kind=PauseKind.CONFIRMED, since_ms=AT_MS + 9**9), ["before", "within", "news"]),
    ],
)
def test_what_a_suspected_flow_reported_in_that_minute_is_left_out(
    spark: "SparkSession", tmp_path: Path, flows: dict[str, FlowPause], found: list[str]
) -> None:
    reported = [("before", "shop", AT_MS - 1), ("within", "shop", AT_MS), ("news", "news", AT_MS)]
    records = [
        outcomes(
            ran(first=sequence, size=1, code=Outcome.INVALID),
            named_targets(sequence=sequence, targets=[target]),
            app=app,
            at_ms=at_ms,
        )
        for sequence, (target, app, at_ms) in enumerate(reported)
    ]
    landed(tmp_path, *records)
    for repeats in (True, False):
        rows = invalid_targets(spark, tmp_path, repeats=repeats, flows=flows).collect()
        assert sorted(row.target for row in rows) == sorted(found)


def test_files_that_lack_columns_of_this_version_get_them_when_they_are_merged() -> None:
    old = pa.RecordBatch.from_pylist(
        [{"target": "tok-1", "channel": "push", "app": "shop", "task": "t", "at": datetime.now(UTC)}]
    )
    row = _as_written_now(old, INVALID_FILE).to_pylist()[0]
    assert (row["target"], row["died_at"], row["reason"]) == ("tok-1", None, None)


def test_small_files_are_put_together_while_readers_see_the_old_or_the_new(
    spark: "SparkSession", journal: Topic
) -> None:
    tables = journal.log.root.parent
    clock = VirtualClock(wall_ms=AT_MS)
    before = outcome_table(spark, tables)
    expected = sorted(map(tuple, before.collect()))
    done = compact(spark, CompactOptions(tables), clock)
    assert (done.files_before, done.files_after, done.merged, done.rows, done.deleted) == (11, 4, 9, 18, 0)
    assert sorted(map(tuple, before.collect())) == expected  # of files that are no longer named, but still there
    assert sorted(map(tuple, outcome_table(spark, tables).collect())) == expected
    again = compact(spark, CompactOptions(tables, keep_s=0.0), VirtualClock(wall_ms=4_000_000_000_000))
    assert (again.merged, again.files_after) == (0, 4)
    assert again.deleted >= 9
    assert sorted(map(tuple, outcome_table(spark, tables).collect())) == expected


def test_tables_of_0_1_0_have_no_reasons(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spark_jobs.journal import files as journal_files

    without = {name: schema.remove(schema.get_field_index("reason")) for name, schema in journal_files.SCHEMAS.items()}
    at = datetime.fromtimestamp(AT_MS / 1000, UTC)
    close = {"task": "t", "outcome": "expired", "at": at, "topic": 0, "record": "p"}
    log = JournalLog(tmp_path)
    with monkeypatch.context() as old:
        old.setattr(journal_files, "SCHEMAS", without)
        add(log, "closes", close)
    add(log, "closes", {**close, "reason": "why"})
    assert sorted(str(row.reason) for row in closes(spark, tmp_path).collect()) == ["None", "why"]


def test_tasks_are_one_row_each_of_what_was_said_last(spark: "SparkSession", tmp_path: Path) -> None:
    accepted = task_record("t")
    found = facts(
        accepted,
        ControlChange(1, "t", "tier", "low", 0),
        Sealed(format=1, task="t", targets=7, refused=2, digest="sum:1f", writers=["a"]),
        finished("t", 5, 2, state="failed", at_ms=AT_MS, reason="no credential"),
        restated(accepted),
    )
    add(JournalLog(tmp_path), "tasks", *found)
    (row,) = tasks(spark, tmp_path).collect()
    assert (row.task, row.app, row.tier, row.targets, row.refused, row.writers) == ("t", "shop", "low", 7, 2, ["a"])
    assert (row.state, row.reason, row.sent, row.invalid) == ("failed", "no credential", 5, 2)
