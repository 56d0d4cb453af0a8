"""The files that snapshots of the backlog are kept in, and which of them are read."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dispatcher.model.errors import InvalidInput, Malformed, NotFound, Refused

pytest.importorskip("pyarrow")

import pyarrow.dataset
import pyarrow.parquet

from spark_jobs.backlog import snapshots as backlog_snapshots
from spark_jobs.backlog.snapshot_files import FOLDER, SCHEMA, FileSettings, SnapshotFiles
from tests.unit.spark_jobs.backlog_rows import START, ms, snapshot, task, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Make = Callable[..., SnapshotFiles]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def make(**settings: Any) -> SnapshotFiles:
        given = {"every_s": 60.0, "first_s": 60.0, **settings}
        return SnapshotFiles(FileSettings(tmp_path, **given))

    return make


def seconds(tmp_path: Path) -> list[float]:
    """When the snapshots were taken that a reader sees."""
    table = pyarrow.dataset.dataset(tmp_path / FOLDER, schema=SCHEMA, partitioning="hive").to_table()
    return sorted((at - START).total_seconds() for at in table["at"].to_pylist())


def test_a_file_holds_some_time_and_is_seen_when_it_is_whole(make: Make, tmp_path: Path) -> None:
    with make() as files:
        for after_s in (0, 20, 40):
            assert files.add(snapshot(after_s)) is None
        assert seconds(tmp_path) == []
        done = files.add(snapshot(60))
        assert done is not None
        assert done.relative_to(tmp_path / FOLDER).parts == ("day=2026-03-04", "snapshots-1772625600000.parquet")
        assert seconds(tmp_path) == [0, 20, 40]
    assert seconds(tmp_path) == [0, 20, 40, 60]


def test_the_first_file_of_a_run_comes_sooner(make: Make, tmp_path: Path) -> None:
    with make(first_s=10.0) as files:
        for after_s in (0, 10, 20, 60, 70):
            files.add(snapshot(after_s))
        assert seconds(tmp_path) == [0, 10, 20, 60]


def test_a_file_ends_with_its_day(make: Make, tmp_path: Path) -> None:
    with make() as files:
        for after_s in (43_190, 43_205):  # ten seconds before midnight, and five after it
            files.add(snapshot(after_s))
    days = sorted(file.parent.name for file in (tmp_path / FOLDER).glob("day=*/*"))
    assert days == ["day=2026-03-04", "day=2026-03-05"]


def test_what_a_killed_run_left_is_taken_up(make: Make, tmp_path: Path) -> None:
    left = tmp_path / "left"
    with make() as killed:
        for after_s in (0, 20):
            killed.add(snapshot(after_s))
        shutil.copytree(tmp_path / FOLDER, left / FOLDER)
    spool = next((left / FOLDER).glob("_spool-*"))
    spool.write_bytes(spool.read_bytes()[:-7])
    with SnapshotFiles(FileSettings(left)) as files:
        assert files.take_up() == 1
        assert files.take_up() == 0
    assert seconds(left) == [0]


def test_a_run_that_died_after_the_file_was_made_leaves_nothing_double(make: Make, tmp_path: Path) -> None:
    files = make()
    files.add(snapshot(0))
    spool = next((tmp_path / FOLDER).glob("_spool-*"))
    left = spool.read_bytes()
    files.close()
    spool.write_bytes(left)
    (tmp_path / FOLDER / "day=2026-03-04" / "_landing-snapshots-1.parquet").write_bytes(b"half")
    with make() as files:
        assert files.take_up() == 0
    assert seconds(tmp_path) == [0]
    assert not list((tmp_path / FOLDER).rglob("_landing*"))


def test_a_run_that_left_nothing_whole_leaves_no_file(make: Make, tmp_path: Path) -> None:
    with make() as files:
        (tmp_path / FOLDER / "_spool-1772625600000.arrow").write_bytes(b"")
        assert files.take_up() == 0
    assert not list((tmp_path / FOLDER).glob("day=*/*"))


def test_two_processes_do_not_write_at_once(make: Make) -> None:
    with make(), pytest.raises(Refused, match="Another process writes snapshots"):
        make()
    make().close()


def test_old_days_are_removed(make: Make, tmp_path: Path) -> None:
    with make(keep_days=2) as files:
        for days in range(4):
            files.add(snapshot(days * 86_400))
    names = sorted(day.name for day in (tmp_path / FOLDER).glob("day=*"))
    assert names == ["day=2026-03-05", "day=2026-03-06", "day=2026-03-07"]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match=r"file/backlog cannot be written: .*--tables"):
        SnapshotFiles(FileSettings(tmp_path / "file"))


def test_all_that_is_kept_comes_back(make: Make, tmp_path: Path) -> None:
    stored = task("t", 5, 0, causes={"cap_total": 7})
    with make() as files:
        files.add(snapshot(0, stored, caps=[("channel/push", 10)], capacity=100))
    table = pyarrow.parquet.read_table(next((tmp_path / FOLDER).glob("day=*/*")), partitioning=None)
    (row,) = table.to_pylist()
    assert row["tasks"] == [stored]
    assert (row["caps"], row["capacity"]) == ([("channel/push", 10)], 100)


# ----------------------------------------------------------------- read back
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
    bad = tables / "backlog" / "day=2026-03-04" / "snapshots-1.parquet"
    bad.write_text("no table")
    with pytest.raises(Malformed, match=r"snapshots-1.parquet cannot be read: .* remove it"):
        backlog_snapshots.find(tables, ms(-60))
