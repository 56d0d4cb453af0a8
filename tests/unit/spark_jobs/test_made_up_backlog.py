"""The made-up tables that the report on the backlog is measured with."""

from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from deltalake import DeltaTable

from lab.synthetic.backlog import SyntheticBacklog, make_tables
from tests.unit.spark_jobs.backlog_rows import START

SIZE = SyntheticBacklog(outcomes=2_000, tasks=12, snapshots=30, every_s=60)


def test_they_add_up_and_are_the_same_for_the_same_seed(tmp_path: Path) -> None:
    reported = []
    for name in ("one", "two"):
        make_tables(tmp_path / name, SIZE, START)
        snapshots = DeltaTable(tmp_path / name / "backlog").to_pyarrow_table().sort_by("at")
        outcomes = DeltaTable(tmp_path / name / "journal" / "outcomes").to_pyarrow_table()
        assert (snapshots.num_rows, outcomes.num_rows) == (30, 2_000)
        reported.append((snapshots.column("tasks").to_pylist(), sorted(outcomes.column("task").to_pylist())))
    assert reported[0] == reported[1]
    tasks = [task for row in reported[0][0] for task in row]
    assert all(0 <= task["sent"] <= task["published"] for task in tasks)
    ended = {task["task"] for row in snapshots.column("ended").to_pylist() for task in row}
    assert not ended & {task["task"] for task in reported[0][0][-1]}
