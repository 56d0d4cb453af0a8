"""Sums and differences of small journals, by a local Spark."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dispatcher.model.errors import InvalidInput, Malformed, NotFound
from dispatcher.wire.outcome import CloseTask, Outcome
from tests.contract.registry_records import sealed, task_record
from tests.records import finished
from tests.unit.spark_jobs.journal_world import (
    AT_MS,
    DAY,
    DAY_MS,
    Topic,
    add,
    facts,
    landed,
    mixed,
    named_targets,
    outcomes,
    ran,
)

pytest.importorskip("pyarrow")
import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from benchmarks.table_jobs import check
from lab.synthetic import journal as synthetic_journal
from spark_jobs.reconcile.differences import NO_OUTCOME, NOT_IN_AUDIENCE, SENT_TWICE, TWICE, odd
from spark_jobs.reconcile.job import ReconcileScope, given_audience, reconcile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_jobs.reconcile.job import Reconciled


def say(topic: Topic, *records: Any) -> None:
    """Facts about tasks from the control topic."""
    add(Path(topic.tables.url), "tasks", *facts(*records))


def journal(tables: Path, targets: int, *records: Any, end: Any = None) -> Topic:
    """A journal of one task, with a seal of this number of targets. records: of its outcomes."""
    topic = landed(tables, *records)
    say(topic, task_record("t"), sealed("t", targets), *[end] * bool(end))
    return topic


def named(first: int, targets: list[str]) -> list[Any]:
    return [ran(first=first, size=len(targets)), named_targets(sequence=first, targets=targets)]


def left_out(tables: Path, rows: Sequence[tuple[str, str]], column: str = "target") -> None:
    """The rejects of an ingestion. rows: target and reason."""
    targets, reasons = zip(*rows, strict=True)
    write_deltalake(tables / "rejects/task=t", pa.table({column: targets, "reason": reasons}))


def people(spark: "SparkSession", *targets: str) -> "DataFrame":
    return spark.createDataFrame([(target,) for target in targets], "target string")


def sums(found: "Reconciled") -> dict[str, int]:
    (one,) = found.sums
    return {"audience": one.audience or 0, **one.totals}


def test_a_task_under_way_adds_up_with_what_is_pending(spark: "SparkSession", tmp_path: Path) -> None:
    codes = bytes((Outcome.SENT, Outcome.INVALID, Outcome.FAILED))
    journal(tmp_path, 12, outcomes(ran(count=2, size=3), mixed(sequence=2, size=3, codes=codes)))
    found = reconcile(spark, ReconcileScope(tmp_path, "t"))
    assert sums(found) == {
        "audience": 12, "sent": 7, "invalid": 1, "failed": 1, "expired": 0, "cancelled": 0, "pending": 3,
    }  # fmt: skip
    assert found.sums[0].adds_up
    assert (found.count, found.folder) == (0, "")


def test_a_task_that_ended_with_targets_pending_does_not_add_up(spark: "SparkSession", tmp_path: Path) -> None:
    journal(tmp_path, 4, outcomes(ran(size=3)), end=finished("t", 4, at_ms=AT_MS))
    assert not reconcile(spark, ReconcileScope(tmp_path, "t")).sums[0].adds_up


def test_a_task_closed_as_a_whole_has_that_outcome_for_the_rest(spark: "SparkSession", tmp_path: Path) -> None:
    end = finished("t", 3, 0, 0, 0, 7, state="cancelled", at_ms=AT_MS)
    journal(tmp_path, 10, outcomes(ran(size=3)), CloseTask(1, "t", int(Outcome.CANCELLED), AT_MS), end=end)
    (one,) = reconcile(spark, ReconcileScope(tmp_path, "t")).sums
    assert (one.totals["sent"], one.totals["cancelled"], one.totals["pending"], one.adds_up) == (3, 7, 0, True)


def test_differences_are_told_target_by_target(spark: "SparkSession", tmp_path: Path) -> None:
    journal(tmp_path, 4, outcomes(*named(0, ["a", "b"]), *named(1, ["c", "a"])), end=finished("t", 4, at_ms=AT_MS))
    found = reconcile(spark, ReconcileScope(tmp_path, "t"), people(spark, "a", "b", "d"))
    reported = {(row["target"], row["difference"]) for row in found.differences}
    assert reported == {("a", SENT_TWICE), ("c", NOT_IN_AUDIENCE), ("d", NO_OUTCOME)}
    assert found.count == 3
    assert DeltaTable(found.folder).count() == 3


def test_targets_are_compared_in_their_canonical_form(spark: "SparkSession", tmp_path: Path) -> None:
    token, other = "ab" * 32, "cd" * 32
    recorded = outcomes(*named(0, [token, other]), channel="apns")
    topic = landed(tmp_path, recorded)
    say(topic, task_record("t", channel="apns"), sealed("t", 2), finished("t", 2, at_ms=AT_MS))
    table = people(spark, f" {token}", other.upper(), "ef" * 32)
    left_out(tmp_path, [("EF" * 32, "suppressed")])
    given = given_audience(spark, table, tmp_path, "t")
    assert reconcile(spark, ReconcileScope(tmp_path, "t"), given).differences == []


def test_an_outcome_that_is_in_the_journal_twice_is_told_by_its_place(spark: "SparkSession", tmp_path: Path) -> None:
    state = journal(tmp_path, 3, outcomes(ran(first=7, size=3))).read()
    (file,), root = state.files, Path(state.table.folder.url)
    copy = file.path.replace(".parquet", "-copy.parquet")
    (root / copy).write_bytes((root / file.path).read_bytes())
    state.commit([replace(file, path=copy)])
    found = reconcile(spark, ReconcileScope(tmp_path, "t"))
    reported = {(row["difference"], row["writer"], row["sequence"], row["position"]) for row in found.differences}
    assert reported == {(TWICE, "0", 7, place) for place in range(3)}
    assert not found.sums[0].adds_up


@pytest.mark.parametrize(("keys", "compared", "found"), [
    ([], True, []),
    ([8, 8, 16], False, [8]),  # outcomes
    ([9, 9, 17, 18], False, [8]),  # targets that are named
    ([9, 10, 10, -7, -6], True, []),  # those, each also in the audience, one of them twice
    ([9, 9, 10], True, [8]),
    ([9, 18, 34, 34, 0, 4], True, [8, 16, 32]),
])  # fmt: skip
def test_checksums_that_tell_of_differences(keys: list[int], compared: bool, found: list[int]) -> None:
    assert odd(np.array(keys, np.int64), compared=compared).tolist() == found


def test_the_planted_differences_are_found_and_no_others(spark: "SparkSession", tmp_path: Path) -> None:
    size = synthetic_journal.SyntheticJournal(3_000, planted=7)
    audience = synthetic_journal.make_tables(tmp_path, size, datetime(2026, 3, 4, 12, tzinfo=UTC))
    given = given_audience(spark, spark.read.parquet(str(audience)), tmp_path, synthetic_journal.TASK)
    check(reconcile(spark, ReconcileScope(tmp_path, synthetic_journal.TASK), given, 100), size)


def test_a_target_without_an_outcome_is_no_difference_while_its_task_is_under_way(
    spark: "SparkSession", tmp_path: Path
) -> None:
    journal(tmp_path, 3, outcomes(*named(0, ["a", "b"])))
    assert reconcile(spark, ReconcileScope(tmp_path, "t"), people(spark, "a", "b", "d")).count == 0


def test_without_names_it_says_that_targets_cannot_be_compared(spark: "SparkSession", tmp_path: Path) -> None:
    journal(tmp_path, 3, outcomes(ran(size=3)))
    found = reconcile(spark, ReconcileScope(tmp_path, "t"), people(spark, "a"))
    assert "journal.targets = all" in found.note
    assert found.count == 0


@pytest.mark.parametrize("column", ["target", "device.id"])
def test_what_an_ingestion_left_out_is_not_of_the_audience(spark: "SparkSession", tmp_path: Path, column: str) -> None:
    table = people(spark, "a", "a", "b", "b", "c")
    assert {row.target for row in given_audience(spark, table, tmp_path, "t").collect()} == {"a", "b", "c"}
    rejects = [("a", "duplicate"), ("b", "the variables are too large"), ("c", "suppressed")]
    left_out(tmp_path, rejects, column)
    assert {row.target for row in given_audience(spark, table, tmp_path, "t").collect()} == {"a", "b"}


@pytest.mark.parametrize(("table", "message"), [
    ("select 'a' token", "has no column target; it has token. Use --map"),
    ("select array(1) target", "is of type array<int>; the target must be text"),
    ("select 'a' target where false", "no rows with a target. Check its path"),
])  # fmt: skip
def test_a_table_that_is_no_audience_is_refused(
    spark: "SparkSession", tmp_path: Path, table: str, message: str
) -> None:
    with pytest.raises(InvalidInput, match=re.escape(message)):
        given_audience(spark, spark.sql(table), tmp_path, "t")


def test_a_day_has_the_tasks_that_were_sent_on_it(spark: "SparkSession", tmp_path: Path) -> None:
    topic = landed(
        tmp_path,
        outcomes(ran(size=3), task="one"),
        outcomes(ran(size=2), task="two"),
        outcomes(ran(size=2), task="later", at_ms=AT_MS + 2 * DAY_MS),
    )
    accepted_ms = {"one": AT_MS, "two": AT_MS - DAY_MS, "later": AT_MS + 2 * DAY_MS}
    say(topic, *(task_record(name, created_ms=at_ms) for name, at_ms in accepted_ms.items()))
    say(topic, *(sealed(name, 3) for name in accepted_ms))
    found = reconcile(spark, ReconcileScope(tmp_path, day=DAY))
    assert [(one.task, one.totals["pending"]) for one in found.sums] == [("one", 0), ("two", 1)]


def test_a_file_of_the_journal_that_cannot_be_read_is_named(spark: "SparkSession", tmp_path: Path) -> None:
    topic = journal(tmp_path, 3, outcomes(ran(size=3)))
    (file,) = topic.read().files
    (Path(topic.read().table.folder.url) / file.path).write_text("no table")
    with pytest.raises(Malformed, match=f"{Path(file.path).name} cannot be read: .* Restore it"):
        reconcile(spark, ReconcileScope(tmp_path, "t"))


def test_a_task_that_the_journal_does_not_know(spark: "SparkSession", tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="has no outcomes of task t"):
        reconcile(spark, ReconcileScope(tmp_path, "t"))
