from pathlib import Path

import pytest

from dispatcher.model.errors import InvalidInput
from spark_jobs.ingest.rejects import RejectsFile, begin, keep
from spark_jobs.storage.folder import Folder
from tests.unit.spark_jobs.tables import table

pytest.importorskip("pyarrow")
import pyarrow.parquet as pq


def left_out(folder: Folder, *targets: str) -> str:
    """Write the rows that an attempt leaves out. Returns the file's name."""
    with RejectsFile(folder) as file:
        for target in targets:
            file.add(table([{"target": target, "reason": "duplicate"}]))
    return file.name


def test_rejects_are_the_rows_of_the_attempts_that_count(tmp_path: Path) -> None:
    folder = Folder.of(tmp_path / "rejects" / "task=sale")
    for run in ("first", "second"):
        attempts = begin(folder)
        names = [left_out(attempts, f"{run}-a", f"{run}-b"), left_out(attempts, f"{run}-c"), left_out(attempts)]
        left_out(attempts, "of a lost attempt")
        (Path(attempts.url) / "planted.parquet").write_bytes(b"by somebody else")
        assert keep(folder, names) == folder.url
        assert sorted(pq.read_table(folder.url)["target"].to_pylist()) == [f"{run}-a", f"{run}-b", f"{run}-c"]
        assert not attempts.exists()


def test_a_run_without_rejects_leaves_no_folder(tmp_path: Path) -> None:
    folder = Folder.of(tmp_path / "rejects" / "task=sale")
    keep(folder, [left_out(begin(folder), "a")])
    begin(folder)
    assert keep(folder, ["", ""]) == ""
    assert [*(tmp_path / "rejects").iterdir()] == []


def test_an_executor_without_the_folder_says_what_to_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"An executor cannot write .*elsewhere.* --tables must name a folder"):
        left_out(Folder.of(tmp_path / "elsewhere"), "a")
