"""The journal goes on while Pulsar is gone."""

import threading
from pathlib import Path

import pytest

from backends.settings import PulsarSettings
from dispatcher.clock import VirtualClock
from dispatcher.model.errors import Unreachable

pytest.importorskip("pyarrow")

from spark_jobs.journal import job as journal_module
from spark_jobs.journal.job import Journal, JournalOptions, LandedBatch


class Steps(Journal):
    """A journal whose batches have these results in order; then it is stopped."""

    def __init__(self, tables: Path, *batches: LandedBatch | Unreachable) -> None:
        super().__init__(None, JournalOptions(tables, PulsarSettings(), 100), VirtualClock())
        self.stop = threading.Event()
        self._batches = list(batches)

    def step(self, until: dict[str, str]) -> LandedBatch:
        batch = self._batches.pop(0)
        if not self._batches:
            self.stop.set()
        if isinstance(batch, Unreachable):
            raise batch
        return batch


def test_a_pulsar_that_is_gone_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "PAUSE_S", 0.001)
    monkeypatch.setattr(journal_module, "last_positions", lambda _: {})
    gone = Unreachable("Pulsar is gone.")
    journal = Steps(tmp_path, LandedBatch(records=1), gone, gone, LandedBatch(records=2))
    reported: list[int] = []
    total = journal.run(journal.stop, 0.001, lambda batch: reported.append(batch.records))
    assert (reported, total.records) == ([1, 2], 3)
