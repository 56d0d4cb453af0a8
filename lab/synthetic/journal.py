"""A synthetic audience and the journal of its task, to measure how long reconciling them takes."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_jobs.journal.files import OUTCOME_FILE, OUTCOMES, TASKS, journal_table
from spark_jobs.journal.job import create_journal
from spark_jobs.reconcile.differences import NO_OUTCOME, NOT_IN_AUDIENCE, SENT_TWICE, TWICE
from spark_jobs.storage.data_files import FileWriter, write_rows
from spark_jobs.storage.folder import Folder

TASK, APP, CHANNEL = "made-up", "shop", "push"
ENVELOPE, WRITERS = 500, 8
"""The targets in an envelope, and the number of Spark task attempts that wrote them."""
_ROWS_OF_A_FILE = 500_000
_HEX, _LENGTH = np.frombuffer(b"0123456789abcdef", np.uint8), 60
RECORD = "00000000000000000001:00000000000000000000:000001"
Numbers: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class SyntheticJournal:
    """The size of a synthetic journal."""

    targets: int = 10_000_000
    """The number of targets in the audience, of 60 characters each."""
    planted: int = 25
    """How often each kind is planted: a stranger at a position, another target there, another position's outcome."""
    seed: int = 2026

    @property
    def differences(self) -> dict[str, int]:
        """Return the number of differences of each kind that a check must find."""
        once = self.planted
        return {NOT_IN_AUDIENCE: once, SENT_TWICE: once, TWICE: once, NO_OUTCOME: 2 * once}


def make_tables(folder: Path, size: SyntheticJournal, at: datetime) -> Path:
    """Write the audience, and a journal in which the task is over and adds up. Returns the audience's folder."""
    chance = np.random.default_rng(size.seed)
    odd = chance.choice(size.targets // 2, (3, size.planted), replace=False) * 2 + 1
    audience = folder / "audience"
    audience.mkdir(parents=True)
    create_journal(Folder.of(folder))
    outcomes, tasks, added = journal_table(folder, OUTCOMES), journal_table(folder, TASKS), []
    for first in range(0, size.targets, _ROWS_OF_A_FILE):
        numbers = np.arange(first, min(size.targets, first + _ROWS_OF_A_FILE))
        targets = _targets(chance, len(numbers))
        pq.write_table(pa.table({"target": targets}), audience / f"part-{first:010d}.parquet", compression="zstd")
        writer = FileWriter(outcomes.folder, outcomes.schema, day=f"{at:%Y-%m-%d}")
        writer.write(_outcomes(numbers, targets, odd, at))
        added += writer.close()
    outcomes.read().commit(added)
    tasks.read().commit(write_rows(tasks.folder, tasks.schema, [_task(size, at)]))
    return audience


def outcome_table(count: int, columns: Mapping[str, Any]) -> pa.Table:
    """Return rows of outcomes. columns: an array, or one value for all rows; those left out are null."""
    arrays = []
    for field in OUTCOME_FILE:
        values = columns.get(field.name)
        is_array = isinstance(values, np.ndarray | pa.Array)
        arrays.append(pa.array(values, field.type) if is_array else pa.repeat(pa.scalar(values, field.type), count))
    return pa.table(arrays, schema=OUTCOME_FILE)


def _targets(chance: np.random.Generator, count: int) -> pa.Array:
    text = _HEX[chance.integers(0, len(_HEX), count * _LENGTH, np.uint8)]
    ends: npt.NDArray[np.int32] = np.arange(0, (count + 1) * _LENGTH, _LENGTH, dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(ends), pa.py_buffer(text)])


def _outcomes(numbers: Numbers, targets: pa.Array, odd: Numbers, at: datetime) -> pa.Table:
    """Return rows of outcomes with the planted differences.

    odd: the positions that hold a stranger, those that hold the target of the position before, and those that hold its
    outcome.
    """
    strange, other, twice = (np.isin(numbers, some) for some in odd)
    targets = targets.take(pa.array(np.arange(len(numbers)) - other))
    names = [f"stranger {number}" if is_strange else None for number, is_strange in zip(numbers, strange, strict=True)]
    named = pc.coalesce(pa.array(names, pa.string()), targets)
    return outcome_table(len(numbers), _columns(numbers - twice, named, at))


def _columns(indexes: Numbers, targets: pa.Array, at: datetime) -> dict[str, Any]:
    envelopes = indexes // ENVELOPE
    writers = pa.array([f"writer-{number}" for number in range(WRITERS)])
    return {
        "task": TASK,
        "app": APP,
        "channel": CHANNEL,
        "writer": writers.take(pa.array(envelopes % WRITERS)),
        "sequence": envelopes // WRITERS,
        "position": indexes % ENVELOPE,
        "attempt": 0,
        "outcome": "sent",
        "at": at,
        "latency_ms": indexes % 60_000,
        "target": targets,
        "topic": envelopes % 8,
        "record": RECORD,
    }


def _task(size: SyntheticJournal, at: datetime) -> dict[str, Any]:
    known = {"task": TASK, "record": RECORD, "app": APP, "tier": "high", "channel": CHANNEL, "accepted_at": at}
    seal = {"targets": size.targets, "refused": 0, "digest": "", "writers": [f"writer-{n}" for n in range(WRITERS)]}
    counts = dict.fromkeys(("invalid", "failed", "expired", "cancelled"), 0)
    return {**known, **seal, "state": "completed", "ended_at": at, "sent": size.targets, **counts}
