"""The compaction of a journal, killed after each of its first changes to the folder: alone, and beside a journal."""

import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from threading import Event
from typing import Any

import pytest

pytest.importorskip("moto")
pytest.importorskip("deltalake")

from deltalake import DeltaTable
from pyarrow.fs import FileSelector

from dispatcher.wire.outcome import Outcome
from spark_jobs.journal.compact import compact
from spark_jobs.journal.files import FOLDER, INVALID_TARGETS, OUTCOMES, STATES
from spark_jobs.storage.folder import Folder
from tests.s3_server import s3_server
from tests.unit.spark_jobs.journal_world import DAY_MS, Topic, named_targets, outcomes, ran, rows, stored

pytestmark = pytest.mark.timeout(600)
KILLS = {"folder": range(1, 21), "bucket": range(1, 21, 5)}
"""After how many changes of the folder a compaction is killed; all of it makes more."""
KEEP_DAYS, OLD_DAYS = 2, 9
CHANGED_S = 60.0
FORKS = get_context("forkserver")
FORKS.set_forkserver_preload([__name__])


@pytest.fixture(params=["folder", "bucket"])
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Folder]:
    if request.param == "folder":
        yield Folder.of(tmp_path)
        return
    with s3_server() as server:
        server.make_bucket("bucket")
        yield Folder.of("s3://bucket/tables", server.storage)


class PairsTopic(Topic):
    """A topic to which pairs of records come: one of today, and one of a day that compaction drops."""

    def __init__(self, tables: Folder) -> None:
        super().__init__(tables, [])
        self._now_ms = int(datetime.now(UTC).timestamp() * 1_000)
        self.pairs = 0

    def land_pair(self) -> None:
        """Land the next pair and copies of the pair before, in one batch."""
        for number in (self.pairs, max(0, self.pairs - 1)):
            pair = [self._record(2 * number, days=0), self._record(2 * number + 1, days=OLD_DAYS)]
            self.records += stored(pair, len(self.records))
        self.pairs += 1
        while (one := self.land(4)) is not None:
            self.commit(one)

    def _record(self, number: int, days: int) -> Any:
        parts = ran(first=number, code=Outcome.INVALID), named_targets(sequence=number, targets=[f"device-{number}"])
        return outcomes(*parts, at_ms=self._now_ms - days * DAY_MS)

    def read_pairs(self) -> int:
        """Check that each row is there once, but for the first ones of the old day. Returns the number of pairs."""
        found: list[int] = sorted(row["sequence"] for row in rows(self))
        pairs, old = sum(number % 2 == 0 for number in found), sum(number % 2 for number in found)
        assert found == sorted([*range(0, 2 * pairs, 2), *range(1 + 2 * (pairs - old), 2 * pairs, 2)])
        return pairs

    def check(self) -> None:
        """Check that all pairs are there once."""
        assert self.read_pairs() == self.pairs
        dead = sorted(int(row["target"].removeprefix("device-")) for row in rows(self, INVALID_TARGETS))
        assert dead == list(range(2 * self.pairs))


def compact_tables(tables: Folder, hours: int) -> None:
    """Compact the tables as this number of hours later."""
    vacuum = DeltaTable.vacuum
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DeltaTable, "vacuum", lambda table, keep, **how: vacuum(table, keep - hours, **how))
        compact(tables, 1 << 27, 3_600.0, KEEP_DAYS)


def listed(tables: Folder) -> set[str]:
    files, root = tables.opened()
    return {info.path for info in files.get_file_info(FileSelector(f"{root}/{FOLDER}", recursive=True))}


def compact_for_ever(tables: Folder, hours: int, started: Any) -> None:
    started.set()
    while True:
        compact_tables(tables, hours)


def kill_after(tables: Folder, hours: int, changes: int) -> None:
    """Kill a process that compacts the tables after this number of files came or went, by any process."""
    started, deadline_s = FORKS.Event(), time.monotonic() + CHANGED_S
    process = FORKS.Process(target=compact_for_ever, args=(tables, hours, started))
    process.start()
    assert started.wait(CHANGED_S)
    before = listed(tables)
    while len(listed(tables) ^ before) < changes:
        assert process.is_alive(), "a compaction failed"
        assert time.monotonic() < deadline_s, f"a compaction makes fewer than {changes} changes"
        time.sleep(0.001)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL


def test_killed_compaction_loses_and_doubles_nothing_and_the_next_one_completes(tables: Folder) -> None:
    topic = PairsTopic(tables)
    for changes in KILLS["folder" if tables.is_local else "bucket"]:
        topic.land_pair()
        topic.land_pair()
        kill_after(tables, 1, changes)
        topic.check()
    compact_tables(tables, 1)
    topic.check()
    files = {f"{name}/{file.path}" for name in (OUTCOMES, INVALID_TARGETS, STATES) for file in topic.read(name).files}
    root = tables.opened()[1]
    left = {path.removeprefix(f"{root}/{FOLDER}/") for path in listed(tables) if path.endswith(".parquet")}
    assert {path for path in left if "_delta_log" not in path} == files
    assert len(files) == 3


def test_journal_and_readers_beside_a_killed_compaction_lose_and_double_nothing(tmp_path: Path) -> None:
    topic, over = PairsTopic(Folder.of(tmp_path)), Event()

    def until_over(step: Callable[[], object]) -> None:
        while not over.is_set():
            step()

    with ThreadPoolExecutor(2) as threads:
        beside = [threads.submit(until_over, step) for step in (topic.land_pair, topic.read_pairs)]
        try:
            for changes in KILLS["folder"]:
                kill_after(topic.tables, 0, changes)
        finally:
            over.set()
    for each in beside:
        each.result()
    compact_tables(topic.tables, 0)
    topic.check()
