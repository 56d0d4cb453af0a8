"""A journal of the format before Delta is copied into Delta tables."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dispatcher.model.errors import NotFound, Refused

pytest.importorskip("deltalake")

import pyarrow as pa
import pyarrow.parquet as pq

from dispatcher.wire.outcome import Outcome
from spark_jobs.journal.first_outcomes import FirstOutcomes
from spark_jobs.journal.job import create_journal
from spark_jobs.journal.older import import_journal
from spark_jobs.journal.tasks import CONTROL
from spark_jobs.storage.folder import Folder
from tests.contract.registry_records import position
from tests.unit.spark_jobs.backlog_rows import outcome
from tests.unit.spark_jobs.journal_world import Topic, outcomes, ran, rows

RECORDS = [outcomes(ran(first=number, code=Outcome.SENT)) for number in range(3)]


def table_file(
    root: Path, table: str, folder: str, given: Sequence[Mapping[str, Any]], **fields: str
) -> dict[str, Any]:
    path = root / table / folder / "1.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(list(given)), path)
    return {"table": table, "path": str(path.relative_to(root)), "rows": len(given), "size": 1, **fields}


def old_journal(tables: Path) -> Path:
    """Write a journal that has landed the first two of RECORDS."""
    root = tables / "journal"
    first = FirstOutcomes()
    landed = [outcome("t", 0, 5, sequence=number, record=position(number)) for number, _ in enumerate(RECORDS[:2])]
    for record in RECORDS[:2]:
        list(first.of(record))
    (root / "log").mkdir(parents=True)
    (root / "state").mkdir()
    (root / "state" / "a.msgpack").write_bytes(msgspec.msgpack.encode((1, first.changes())))
    added = [
        table_file(root, "outcomes", "day=2026-03-04/app=a%2Fb", landed, day="2026-03-04", app="a/b"),
        table_file(root, "tasks", "", [{"task": "t", "record": position(0), "tier": "high"}]),
    ]
    gone = {**added[0], "path": "outcomes/gone.parquet"}
    cursors = {"0": position(1), CONTROL: position(5)}
    commits = [
        {"number": 1, "cursors": {}, "states": {}, "added": [gone], "removed": []},
        {
            "number": 2,
            "cursors": cursors,
            "states": {"0": ["state/a.msgpack"]},
            "added": added,
            "removed": [gone["path"]],
        },
    ]
    for commit in commits:
        (root / "log" / f"{commit['number']:010d}.json").write_bytes(msgspec.json.encode(commit))
    return tables


def test_an_older_journal_is_copied_and_goes_on_where_it_ended(tmp_path: Path) -> None:
    old, tables = old_journal(tmp_path / "old"), Folder.of(tmp_path / "new")
    assert import_journal(old, tables) == {"outcomes": 2, "tasks": 1}
    topic = Topic(tables, RECORDS)
    one = topic.land(10)
    assert one is not None
    assert one.records == 1
    topic.commit(one)
    assert [(row["sequence"], row["app"]) for row in rows(topic)] == [(0, "a/b"), (1, "a/b"), (2, "shop")]
    assert topic.read("tasks").cursor(CONTROL) == position(5)
    assert rows(topic, "tasks")[0]["tier"] == "high"


def test_an_older_journal_is_not_copied_into_a_journal_or_run_in_its_folder(tmp_path: Path) -> None:
    old, tables = old_journal(tmp_path / "old"), Folder.of(tmp_path / "new")
    import_journal(old, tables)
    with pytest.raises(Refused, match="has a journal already"):
        import_journal(old, tables)
    with pytest.raises(Refused, match=r"journal of an older version.*fairlane journal import"):
        create_journal(Folder.of(old))
    with pytest.raises(NotFound, match=r"no journal of the format before Delta"):
        import_journal(tmp_path / "nothing", tables)
