"""The journal's part of the report on the backlog."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa

from dispatcher.model.errors import FairlaneError
from spark_jobs.backlog import journal as backlog_journal
from spark_jobs.backlog.journal import NOT_KNOWN, JournalQuery, quantile_s
from spark_jobs.journal.files import OUTCOME_FILE, OUTCOME_TABLE
from spark_jobs.storage.data_files import DataFile, FileWriter
from spark_jobs.storage.folder import Folder
from tests.unit.spark_jobs.backlog_rows import ms, outcome

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ASKED = JournalQuery(ms(0), 10_000, {"a": "high", "b": "low"}, ["b"])
"""Stretches of 10 s from the start on."""
SHOP = [
    outcome("a", -1, 5),
    *(outcome("a", second, 0) for second in (0, 3, 9.999)),
    outcome("a", 10, 1_000, attempt=1),
    outcome("a", 12, 1_000, "invalid"),
]
NEWS = [outcome("b", 11, 1_000, "failed", attempt=2), outcome("b", 11, 1_000, "expired")]
UNKNOWN = [outcome("c", 25, 60_000, channel="mail")]


def rows(table: pa.Table, *fields: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.select(list(fields)).to_pylist())


def table(outcomes: Sequence[dict[str, Any]], app: str | None) -> pa.Table:
    return pa.Table.from_pylist([{**row, "app": app} for row in outcomes], schema=OUTCOME_FILE)


def done(outcomes: Sequence[dict[str, Any]], app: str | None) -> pa.Table:
    return backlog_journal.done(table(outcomes, app), ASKED)


@pytest.fixture
def all_done() -> pa.Table:
    return pa.concat_tables([done(SHOP, "shop"), done(NEWS, "news"), done(UNKNOWN, None)])


def test_outcomes_are_counted_by_task_stretch_and_wait(all_done: pa.Table) -> None:
    assert rows(all_done, "task", "app", "bin", "bucket", "done", "sent", "lost", "retried") == [
        ("a", "shop", 0, 0, 3, 3, 0, 0),
        ("a", "shop", 1, 39, 2, 1, 1, 1),
        ("b", "news", 1, 39, 2, 0, 1, 1),
        ("c", NOT_KNOWN, 2, 63, 1, 1, 0, 0),
    ]


def test_they_are_summed_up_by_dimension_over_time_and_of_some_tasks(all_done: pa.Table) -> None:
    found = backlog_journal.summed(all_done, ASKED)
    assert [row for row in rows(found.names, "dimension", "name", "bucket", "done") if row[0] != "app"] == [
        ("channel", "mail", 63, 1), ("channel", "push", 0, 3), ("channel", "push", 39, 4),
        ("tier", NOT_KNOWN, 63, 1), ("tier", "high", 0, 3), ("tier", "high", 39, 2), ("tier", "low", 39, 2),
    ]  # fmt: skip
    assert rows(found.by_time, "bin", "app", "bucket", "done") == [
        (0, "shop", 0, 3), (1, "news", 39, 2), (1, "shop", 39, 2), (2, NOT_KNOWN, 63, 1),
    ]  # fmt: skip
    assert rows(found.tasks, "task", "bucket", "done", "sent", "lost", "retried") == [("b", 39, 2, 0, 1, 1)]


def written(root: Path, app: str | None, *row_groups: Sequence[dict[str, Any]]) -> DataFile:
    writer = FileWriter(Folder.of(root), OUTCOME_TABLE, day="2026-03-04")
    for group in row_groups:
        writer.write(table(group, app))
    return writer.close()


def test_files_read_by_several_tasks_of_spark_are_summed_up_as_one_table(
    spark: "SparkSession", tmp_path: Path, all_done: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog_journal, "_ROWS_OF_A_PIECE", 2)  # the file of the shop is read in three pieces
    files = [
        written(tmp_path, "shop", SHOP[:1], SHOP[1:4], SHOP[4:]),
        written(tmp_path, "news", NEWS),
        written(tmp_path, None, UNKNOWN),
    ]
    found, alone = (
        backlog_journal.read(spark, Folder.of(tmp_path), files, ASKED),
        backlog_journal.summed(all_done, ASKED),
    )
    for one, other in zip(found, alone, strict=True):
        assert rows(one, *other.column_names) == rows(other, *other.column_names)
    (tmp_path / files[1].path).write_text("no table")
    with pytest.raises(FairlaneError, match="Parquet"):
        backlog_journal.read(spark, Folder.of(tmp_path), files, ASKED)


@pytest.mark.parametrize("wait_ms", [0, 1, 7, 40, 999, 60_000, 86_400_000])
def test_a_quantile_is_at_most_a_fifth_too_long(wait_ms: int) -> None:
    (row,) = done([outcome("a", 1, wait_ms)], "shop").to_pylist()
    reported_s = quantile_s({row["bucket"]: 1}, 0.5)
    assert reported_s is not None
    assert wait_ms <= reported_s * 1000 <= 1.2 * wait_ms + 0.2


def test_quantiles_count_targets() -> None:
    buckets = {0: 90, 20: 5, 40: 5}
    assert quantile_s(buckets, 0.5) == quantile_s({0: 1}, 0.5)
    assert quantile_s(buckets, 0.95) == quantile_s({20: 1}, 0.5)
    assert quantile_s(buckets, 0.96) == quantile_s({40: 1}, 0.5)
    assert quantile_s({}, 0.5) is None
