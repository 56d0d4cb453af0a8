"""The files that snapshots of the backlog are kept in, and which of them are read."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dispatcher.model.errors import Malformed, NotFound, Refused, Unreachable

pytest.importorskip("pyarrow")

from deltalake import DeltaTable

from spark_jobs.backlog import snapshot_files
from spark_jobs.backlog import snapshots as backlog_snapshots
from spark_jobs.backlog.snapshot_files import SnapshotFiles
from spark_jobs.storage.delta import TableState
from tests.unit.spark_jobs.backlog_rows import START, ms, snapshot, task, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rows(tmp_path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = DeltaTable(tmp_path / "backlog").to_pyarrow_table().to_pylist()
    return sorted(found, key=lambda row: row["at"])


def seconds(tmp_path: Path) -> list[float]:
    """When the snapshots were taken that a reader sees."""
    return [(row["at"] - START).total_seconds() for row in rows(tmp_path)]


def test_a_snapshot_is_stored_at_once(tmp_path: Path) -> None:
    files = SnapshotFiles(tmp_path)
    for number, after_s in enumerate((0, 20, 40), 1):
        path = files.add(snapshot(after_s))
        assert Path(path).relative_to(tmp_path / "backlog").parts[0] == "day=2026-03-04"
        assert len(rows(tmp_path)) == number
    assert seconds(tmp_path) == [0, 20, 40]


def test_each_day_has_files_of_its_own(tmp_path: Path) -> None:
    SnapshotFiles(tmp_path).add(*(snapshot(after_s) for after_s in (43_190, 43_205)))  # on both sides of midnight
    assert [f"{row['day']}" for row in rows(tmp_path)] == ["2026-03-04", "2026-03-05"]


def test_many_small_files_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_files, "_MERGED_EVERY", 7)
    files = SnapshotFiles(tmp_path, keep_days=0)
    for after_s in range(20):
        files.add(snapshot(after_s, task("t", 5, 0, causes={"cap_total": 7})))
    assert seconds(tmp_path) == list(range(20))
    assert len(DeltaTable(tmp_path / "backlog").file_uris()) == 1 + 20 % 7


def test_a_second_process_is_refused_at_its_first_snapshot(tmp_path: Path) -> None:
    files, other = SnapshotFiles(tmp_path), SnapshotFiles(tmp_path)
    files.add(snapshot(0))
    with pytest.raises(Refused, match="Another process writes snapshots"):
        other.add(snapshot(1))
    SnapshotFiles(tmp_path, is_series=False).add(snapshot(2))
    files.add(snapshot(3))
    assert seconds(tmp_path) == [0, 2, 3]


@pytest.mark.parametrize("is_stored", [False, True])
def test_snapshots_wait_for_a_store_that_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_stored: bool
) -> None:
    """Also where only the receipt of a commit was lost, each is stored once."""
    commit = TableState.commit

    def away(*given: Any, **more: Any) -> None:
        if is_stored:
            commit(*given, **more)
        raise Unreachable("The store is away.")

    files = SnapshotFiles(tmp_path)
    files.add(snapshot(0))
    with monkeypatch.context() as patch:
        patch.setattr(TableState, "commit", away)
        with pytest.raises(Unreachable):
            files.add(snapshot(70))
    files.add(snapshot(80))
    assert seconds(tmp_path) == [0, 70, 80]


def test_old_days_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_files, "_MERGED_EVERY", 4)
    files, now = SnapshotFiles(tmp_path, keep_days=2), datetime.now(UTC)
    for days in (3, 2, 1, 0):
        files.add(snapshot(0, at=now - timedelta(days=days)))
    assert [row["at"] for row in rows(tmp_path)] == [now - timedelta(days=days) for days in (2, 1, 0)]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused, match=r"file/backlog cannot be written: .*--tables"):
        SnapshotFiles(tmp_path / "file")


def test_all_that_is_kept_comes_back(tmp_path: Path) -> None:
    stored = task("t", 5, 0, causes={"cap_total": 7})
    SnapshotFiles(tmp_path).add(snapshot(0, stored, caps=[("channel/push", 10)], capacity=100))
    (row,) = rows(tmp_path)
    assert row["tasks"] == [stored]
    assert (row["caps"], row["capacity"]) == ([("channel/push", 10)], 100)


# ----------------------------------------------------------------- read back
@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Two files: one of the first minute, one of the minute and a half after."""
    for times in ((0, 30), (70, 100, 130)):
        write(tmp_path, *(snapshot(seconds, task("a", seconds, 0)) for seconds in times))
    return tmp_path


def test_snapshots_before_are_not_looked_at_and_without_any_it_is_said(tables: Path) -> None:
    assert backlog_snapshots.find(tables, ms(-60)).times == [ms(0), ms(30), ms(70), ms(100), ms(130)]
    found = backlog_snapshots.find(tables, ms(20))
    assert found.times == [ms(30), ms(70), ms(100), ms(130)]
    with pytest.raises(NotFound, match="holds no snapshots since 2026-03-05"):
        backlog_snapshots.find(tables, ms(86_400))
    with pytest.raises(NotFound, match="holds no snapshots since 2026-03-04 12:1"):
        backlog_snapshots.find(tables, ms(900))


def test_snapshots_are_read_at_the_times_asked_for(spark: "SparkSession", tables: Path) -> None:
    found, times = backlog_snapshots.find(tables, ms(20)), [ms(30), ms(70), ms(130)]
    snapshots = found.at(spark, times)
    assert sorted(tuple(row) for row in snapshots.select("at_ms", "caps").collect()) == [(at_ms, {}) for at_ms in times]
    tasks = found.tasks(spark, times)
    assert sorted(tuple(row) for row in tasks.select("at_ms", "published").collect()) == [
        (ms(one), one) for one in (30, 70, 130)
    ]


def test_a_file_that_is_no_table_is_named(tables: Path) -> None:
    bad = next((tables / "backlog" / "day=2026-03-04").glob("*.parquet"))
    bad.write_text("no table")
    with pytest.raises(Malformed, match=rf"{bad.name} cannot be read: .* remove it"):
        backlog_snapshots.find(tables, ms(-60))
