"""The table of the rows that an ingestion leaves out."""

from datetime import time, timedelta
from pathlib import Path

import pytest

from dispatcher.model.errors import Refused
from spark_jobs.storage.data_files import DataFile, FileWriter
from spark_jobs.storage.delta import Table
from spark_jobs.storage.folder import reaching

pytest.importorskip("pyarrow")
import pyarrow as pa
from deltalake import DeltaTable

from spark_jobs.ingest.rejects import rejects_folder, rejects_table

ROWS = pa.schema([("target", pa.string()), ("reason", pa.string())])


def left_out(table: Table, *targets: str) -> list[DataFile]:
    """Write the rows that an attempt leaves out."""
    writer = FileWriter(table.folder, table.schema)
    with reaching(table.folder, "written"):
        for target in targets:
            writer.write(pa.table({"target": [target], "reason": ["duplicate"]}))
        return writer.close()


def test_rejects_are_the_rows_of_the_attempts_that_count(tmp_path: Path) -> None:
    table = rejects_table(rejects_folder(tmp_path, "sale"), ROWS)
    table.create()
    for run in ("first", "second"):
        files = [*left_out(table, f"{run}-a", f"{run}-b"), *left_out(table, f"{run}-c"), *left_out(table)]
        left_out(table, "of a lost attempt")
        table.replace(files)
        found = DeltaTable(tmp_path / "rejects/task=sale").to_pyarrow_table()
        assert sorted(found["target"].to_pylist()) == [f"{run}-a", f"{run}-b", f"{run}-c"]
    table.replace([])
    assert DeltaTable(table.folder.url).count() == 0


def test_columns_are_those_of_the_last_run_and_times_become_texts(tmp_path: Path) -> None:
    folder = rejects_folder(tmp_path, "sale")
    rows = pa.table(
        {
            "some.`name": ["a"],
            "at": pa.array([time(1, 2, 3)], pa.time64("ns")),
            "nested": pa.array([{"for": [timedelta(seconds=1)]}], pa.struct([("for", pa.list_(pa.duration("us")))])),
            "nothing": pa.nulls(1),
            "many": pa.array([[("k", time(4))]], pa.map_(pa.string(), pa.time64("us"))),
        }
    )
    rejects_table(folder, ROWS).create()
    table = rejects_table(folder, rows.schema)
    writer = FileWriter(folder, table.schema)
    writer.write(rows)
    table.replace(writer.close())
    assert DeltaTable(folder.url).to_pyarrow_table().to_pylist() == [
        {
            "some.`name": "a",
            "at": "01:02:03.000000000",
            "nested": {"for": ["1000000"]},
            "nothing": None,
            "many": [("k", "04:00:00.000000")],
        }
    ]


def test_an_executor_without_the_folder_says_what_to_name(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"elsewhere.* cannot be written: .* all machines share with --tables"):
        left_out(rejects_table(rejects_folder(tmp_path, "elsewhere"), ROWS), "a")
