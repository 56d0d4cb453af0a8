"""The journal as Spark's tables: outcomes, ends, invalid targets and tasks."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dispatcher.model.flow_pause import FlowPause, PauseKind
from dispatcher.wire.control import ControlChange, Sealed
from dispatcher.wire.outcome import CloseTask, Outcome
from tests.contract.ledger_worlds import task_record
from tests.contract.registry_records import position
from tests.records import finished

pytest.importorskip("pyarrow")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from spark_jobs.journal.compact import compact
from spark_jobs.journal.files import INVALID_TARGETS, SCHEMAS, journal_table
from spark_jobs.journal.tables import closes, invalid_targets, tasks
from spark_jobs.journal.tables import outcomes as outcome_table
from spark_jobs.storage.delta import Conflict
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
    stored,
)

pytestmark = pytest.mark.timeout(300)  # some run on Spark, whose first job takes long on a busy machine


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Topic:
    """A journal of two days in eleven files; the last record is stored twice."""
    records = [outcomes(ran(first=number, count=2), at_ms=AT_MS + number * DAY_MS // 10) for number in range(0, 20, 2)]
    closing = CloseTask(1, "t", int(Outcome.CANCELLED), AT_MS, "no credential")
    return landed(tmp_path_factory.mktemp("tables"), *records, records[-1], closing, at_once=1)


def test_the_tables_are_read_by_their_files(spark: "SparkSession", journal: Topic) -> None:
    tables = journal.tables
    found = outcome_table(spark, tables)
    assert found.count() == 20
    assert [row.app for row in found.select("app").distinct().collect()] == ["shop"]
    assert outcome_table(spark, tables, since="2023-11-15", until="2023-11-15").count() == 10
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
    assert invalid_targets(spark, tmp_path, flows={}).columns == SCHEMAS[INVALID_TARGETS].names


def test_an_invalid_target_has_a_time_of_death(spark: "SparkSession", tmp_path: Path) -> None:
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
    rows = invalid_targets(spark, tmp_path, flows=flows).collect()
    assert sorted(row.target for row in rows) == sorted(found)


def test_small_files_are_put_together_while_readers_see_the_old_or_the_new(
    spark: "SparkSession", journal: Topic
) -> None:
    tables = journal.tables
    before = outcome_table(spark, tables)
    expected = sorted(map(tuple, before.collect()))
    done = compact(tables, 1 << 27, 3_600.0)
    assert (done.files_before, done.merged) == (23, 21)
    assert sorted(file.rows for file in journal.read().files) == [2, 8, 10]
    assert sorted(map(tuple, before.collect())) == expected  # of files that are no longer named, but still there
    assert sorted(map(tuple, outcome_table(spark, tables).collect())) == expected
    assert compact(tables, 1 << 27, 3_600.0).merged == 0


def test_days_before_those_to_keep_are_dropped(tmp_path: Path) -> None:
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    topic = landed(tmp_path, outcomes(ran(), at_ms=now_ms - 5 * DAY_MS), outcomes(ran(first=1), at_ms=now_ms))
    compact(topic.tables, 1 << 27, 3_600.0, keep_days=2)
    assert journal_table(tmp_path, "outcomes").read().rows == 1


def test_days_are_dropped_though_rows_of_them_land_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = landed(tmp_path, outcomes(ran()))
    topic.records += stored([outcomes(ran(first=1))], len(topic.records))
    delete = DeltaTable.delete

    def delete_late(table: DeltaTable, where: str) -> object:
        if one := topic.land(1):
            topic.commit(one)
        return delete(table, where)

    monkeypatch.setattr(DeltaTable, "delete", delete_late)
    compact(topic.tables, 1 << 27, 3_600.0, keep_days=2)
    assert (topic.read().rows, topic.read().cursor("0")) == (0, position(1))


def test_days_that_are_written_all_the_time_are_kept_and_the_error_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = landed(tmp_path, outcomes(ran()))

    def refuse(_table: DeltaTable, _where: str) -> None:
        raise CommitFailedError("a concurrent transaction added data")

    monkeypatch.setattr(DeltaTable, "delete", refuse)
    with pytest.raises(Conflict, match=r"Another job adds rows .* Run the command again later"):
        compact(topic.tables, 1 << 27, 3_600.0, keep_days=2)
    assert topic.read().rows == 1


def test_tasks_are_one_row_each_of_what_was_said_last(spark: "SparkSession", tmp_path: Path) -> None:
    accepted = task_record("t")
    found = facts(
        accepted,
        ControlChange(1, "t", "tier", "low", 0),
        Sealed(format=1, task="t", targets=7, refused=2, digest="sum:1f", writers=["a"]),
        finished("t", 5, 2, state="failed", at_ms=AT_MS, reason="no credential"),
        restated(accepted),
    )
    add(tmp_path, "tasks", *found)
    (row,) = tasks(spark, tmp_path).collect()
    assert (row.task, row.app, row.tier, row.targets, row.refused, row.writers) == ("t", "shop", "low", 7, 2, ["a"])
    assert (row.state, row.reason, row.sent, row.invalid) == ("failed", "no credential", 5, 2)
