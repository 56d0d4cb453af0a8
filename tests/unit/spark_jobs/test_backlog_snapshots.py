"""Which snapshots there are, and those asked for read back, on a few rows."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dispatcher.model.errors import Malformed, NotFound
from tests.unit.spark_jobs.backlog_rows import START_MS, ms, snapshot, task, write

pytest.importorskip("pyarrow")

from spark_jobs.backlog import snapshots as backlog_snapshots

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY_MS = 86_400_000


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Two files: one of the first minute, one of the five minutes after."""
    return write(tmp_path, *(snapshot(seconds, task("a", seconds, 0)) for seconds in (0, 30, 70, 100, 130)))


def test_snapshots_before_are_not_looked_at_and_without_any_it_is_said(tables: Path) -> None:
    assert backlog_snapshots.find(tables, ms(-60)).times == [ms(0), ms(30), ms(70), ms(100), ms(130)]
    found = backlog_snapshots.find(tables, ms(20))
    assert found.times == [ms(30), ms(70), ms(100), ms(130)]
    assert len(found.files) == 2
    assert len(backlog_snapshots.find(tables, ms(60)).files) == 1
    with pytest.raises(NotFound, match="holds no snapshots since 2026-03-05"):
        backlog_snapshots.find(tables, START_MS + DAY_MS)
    with pytest.raises(NotFound, match="There are no snapshots of the backlog since 2026-03-04 12:1"):
        backlog_snapshots.find(tables, ms(900))


@pytest.mark.parametrize(("seconds", "files"), [((30,), 1), ((70, 130), 1), ((30, 70), 2), ((30, 70, 100, 130), 2)])
def test_only_files_are_opened_that_hold_what_is_asked_for(
    spark: "SparkSession", tables: Path, seconds: tuple[int, ...], files: int
) -> None:
    found, times = backlog_snapshots.find(tables, ms(20)), [ms(one) for one in seconds]
    snapshots = found.at(spark, times)
    assert len(snapshots.inputFiles()) == files
    assert sorted(tuple(row) for row in snapshots.select("at_ms", "caps").collect()) == [(at_ms, {}) for at_ms in times]
    tasks = found.tasks(spark, times)
    assert sorted(tuple(row) for row in tasks.select("at_ms", "published").collect()) == [
        (ms(one), one) for one in seconds
    ]


def test_a_file_that_is_no_table_is_named(tables: Path) -> None:
    bad = tables / "backlog" / "day=2026-03-04" / "snapshots-1.parquet"
    bad.write_text("no table")
    with pytest.raises(Malformed, match=r"snapshots-1.parquet cannot be read: .* remove it"):
        backlog_snapshots.find(tables, ms(-60))
