"""The files that snapshots of the backlog are kept in, and which of them are read."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dispatcher.model.errors import Malformed, NotFound, Refused, Unreachable

pytest.importorskip("pyarrow")

from deltalake import DeltaTable

from spark_jobs.backlog import snapshots as backlog_snapshots
from spark_jobs.backlog.snapshot_files import FileSettings, SnapshotFiles
from spark_jobs.storage.delta import TableState
from tests.unit.spark_jobs.backlog_rows import START, ms, snapshot, task, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Make = Callable[..., SnapshotFiles]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def make(**settings: Any) -> SnapshotFiles:
        return SnapshotFiles(FileSettings(tmp_path, **settings))

    return make


def rows(tmp_path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = DeltaTable(tmp_path / "backlog").to_pyarrow_table().to_pylist()
    return sorted(found, key=lambda row: row["at"])


def seconds(tmp_path: Path) -> list[float]:
    """When the snapshots were taken that a reader sees."""
    return [(row["at"] - START).total_seconds() for row in rows(tmp_path)]


def test_a_file_has_the_snapshots_of_its_time(make: Make, tmp_path: Path) -> None:
    with make() as files:
        for after_s in (0, 20, 40):
            assert files.add(snapshot(after_s)) is None
        assert seconds(tmp_path) == []
        done = files.add(snapshot(60))
        assert done is not None
        assert Path(done).relative_to(tmp_path / "backlog").parts[0] == "day=2026-03-04"
        assert seconds(tmp_path) == [0, 20, 40]
    assert seconds(tmp_path) == [0, 20, 40, 60]


def test_a_file_ends_with_its_day(make: Make, tmp_path: Path) -> None:
    with make() as files:
        for after_s in (43_190, 43_205):  # ten seconds before midnight, and five after it
            files.add(snapshot(after_s))
    assert {f"{row['day']}" for row in rows(tmp_path)} == {"2026-03-04", "2026-03-05"}


def test_the_files_of_an_hour_are_merged(make: Make, tmp_path: Path) -> None:
    with make() as files:
        for after_s in range(0, 7_800, 60):
            files.add(snapshot(after_s, task("t", 5, 0, causes={"cap_total": 7})))
    assert seconds(tmp_path) == list(range(0, 7_800, 60))
    assert len(DeltaTable(tmp_path / "backlog").file_uris()) < 20


def test_a_second_process_is_refused_at_its_first_file(make: Make, tmp_path: Path) -> None:
    with make() as files:
        other = make()
        files.add(snapshot(0))
        files.land()
        other.add(snapshot(1))
        with pytest.raises(Refused, match="Another process writes snapshots"):
            other.land()
    assert seconds(tmp_path) == [0]


def test_snapshots_wait_for_a_store_that_is_away(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise Unreachable("The store is away.")

    with make() as files:
        files.add(snapshot(0))
        with monkeypatch.context() as patch:
            patch.setattr(TableState, "commit", away)
            with pytest.raises(Unreachable):
                files.add(snapshot(70))
    assert seconds(tmp_path) == [0, 70]


def test_old_days_are_removed(make: Make, tmp_path: Path) -> None:
    with make(keep_days=2) as files:
        for days in range(4):
            files.add(snapshot(days * 86_400))
    assert [f"{row['day']}" for row in rows(tmp_path)] == ["2026-03-05", "2026-03-06", "2026-03-07"]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused, match=r"file/backlog cannot be written: .*--tables"):
        SnapshotFiles(FileSettings(tmp_path / "file"))


def test_all_that_is_kept_comes_back(make: Make, tmp_path: Path) -> None:
    stored = task("t", 5, 0, causes={"cap_total": 7})
    with make() as files:
        files.add(snapshot(0, stored, caps=[("channel/push", 10)], capacity=100))
    (row,) = rows(tmp_path)
    assert row["tasks"] == [stored]
    assert (row["caps"], row["capacity"]) == ([("channel/push", 10)], 100)


# ----------------------------------------------------------------- read back
@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Two files: one of the first minute, one of the minute and a half after."""
    return write(tmp_path, *(snapshot(seconds, task("a", seconds, 0)) for seconds in (0, 30, 70, 100, 130)))


def test_snapshots_before_are_not_looked_at_and_without_any_it_is_said(tables: Path) -> None:
    assert backlog_snapshots.find(tables, ms(-60)).times == [ms(0), ms(30), ms(70), ms(100), ms(130)]
    found = backlog_snapshots.find(tables, ms(20))
    assert found.times == [ms(30), ms(70), ms(100), ms(130)]
    assert len(found.files) == 2
    assert len(backlog_snapshots.find(tables, ms(60)).files) == 1
    with pytest.raises(NotFound, match="holds no snapshots since 2026-03-05"):
        backlog_snapshots.find(tables, ms(86_400))
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
    bad = next((tables / "backlog" / "day=2026-03-04").glob("*.parquet"))
    bad.write_text("no table")
    with pytest.raises(Malformed, match=rf"{bad.name} cannot be read: .* remove it"):
        backlog_snapshots.find(tables, ms(-60))
