"""Build rows of outcomes, one per target, in bulk: pieces of records in, Arrow batches out."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dispatcher.wire.outcome import OUTCOME_NAMES, Named, Outcomes, ProviderIds, Run
from spark_jobs.journal.first_outcomes import PartialOutcome, Piece

FULL_ROWS = 1 << 16
"""The approximate number of rows in a batch: a piece is never split."""
DIED = pa.timestamp("us", tz="UTC")
ROWS = pa.schema(
    [
        pa.field("task", pa.string(), nullable=False),
        pa.field("app", pa.string(), nullable=False),
        pa.field("channel", pa.string(), nullable=False),
        pa.field("writer", pa.string(), nullable=False),
        pa.field("sequence", pa.int32(), nullable=False),
        pa.field("position", pa.int32(), nullable=False),
        pa.field("attempt", pa.int32(), nullable=False),
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("at", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("latency_ms", pa.int64(), nullable=False),
        pa.field("target", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("topic", pa.int32(), nullable=False),
        pa.field("record", pa.string(), nullable=False),
        pa.field("died_at", DIED),
        pa.field("provider_id", pa.string()),
    ]
)
"""One final outcome of one target.

- at: when it was recorded.
- latency_ms: see dispatcher.wire.outcome.Outcomes.
- target, reason: null where the record does not name it.
- died_at: of an invalid target, when the provider says that it died; null where it says no time.
- provider_id: the provider's id of a message that it took; null unless the channel's setting keep_ids is on.
- topic, record: the number of the outcome topic, and the record's position in it. Positions sort as text in topic
  order.
"""


class _Head(NamedTuple):
    """The values that all rows of one record share."""

    task: str
    app: str
    channel: str
    at_ms: int
    latency_ms: int
    record: str


class RowBuilder:
    """Collects pieces of records of one outcome topic until there are enough for a batch."""

    def __init__(self, topic: int) -> None:
        self.rows = 0
        self._topic = topic
        self._heads: list[_Head] = []
        self._named: dict[tuple[str, int], Named] = {}
        self._kept_ids: dict[tuple[str, int], ProviderIds] = {}
        self._pieces: list[tuple[int, str, int, int, int, int, int]] = []
        """(head, writer, attempt, first sequence, size, rows, code); code is -1 if each target has its own."""
        self._own: list[tuple[int, list[int], list[int]]] = []
        """(first row, positions, codes) of each piece whose targets have an outcome each."""
        self._names: list[tuple[int, str, str | None, int | None]] = []
        """(row, target, reason, time of death in microseconds)"""
        self._ids: list[tuple[int, str]] = []
        """(row, provider's id)"""

    def batches(self, record: Outcomes, position: str, pieces: Iterable[Piece]) -> Iterator[pa.RecordBatch]:
        """Add these pieces of a record. Yield the batches that are now full."""
        self._begin(record, position)
        for piece in pieces:
            self._add(piece)
            if self.rows >= FULL_ROWS:
                yield self.take()

    def _begin(self, record: Outcomes, position: str) -> None:
        self._heads.append(
            _Head(
                task=record.task,
                app=record.app,
                channel=record.channel,
                at_ms=record.at_ms,
                latency_ms=record.latency_ms,
                record=position,
            )
        )
        self._named = {(one.writer, one.sequence): one for one in record.named}
        self._kept_ids = {(one.writer, one.sequence): one for one in record.provider_ids}

    def _add(self, piece: Piece) -> None:
        if isinstance(piece, Run):
            self._add_run(piece)
        else:
            self._add_some(piece)

    def _add_run(self, run: Run) -> None:
        if self._named or self._kept_ids:
            for index in range(run.count):
                self._name(run.writer, run.first + index, self.rows + index * run.size, range(run.size))
        rows = run.count * run.size
        self._pieces.append((len(self._heads) - 1, run.writer, run.attempt, run.first, run.size, rows, run.code))
        self.rows += rows

    def _add_some(self, piece: PartialOutcome) -> None:
        rows = len(piece.positions)
        if self._named or self._kept_ids:
            self._name(piece.writer, piece.sequence, self.rows, piece.positions)
        self._pieces.append((len(self._heads) - 1, piece.writer, piece.attempt, piece.sequence, rows, rows, -1))
        self._own.append((self.rows, piece.positions, piece.codes))
        self.rows += rows

    def _name(self, writer: str, sequence: int, row: int, target_positions: range | list[int]) -> None:
        """Name the targets of the rows from `row` on, which are at these positions of the envelope, and what the
        provider calls their messages."""
        kept = self._kept_ids.get((writer, sequence))
        if kept is not None:
            ids = dict(enumerate(kept.ids) if kept.positions is None else zip(kept.positions, kept.ids, strict=False))
            found = ((row + offset, ids.get(position)) for offset, position in enumerate(target_positions))
            self._ids += [(at, kept.prefix + rest) for at, rest in found if rest is not None]
        named = self._named.get((writer, sequence))
        if named is None:
            return
        reasons = named.reasons or [""] * len(named.targets)
        positions = range(len(named.targets)) if named.positions is None else named.positions
        died_ms = named.died_ms or [0] * len(named.targets)
        details = dict(zip(positions, zip(named.targets, reasons, died_ms, strict=False), strict=False))
        for offset, position in enumerate(target_positions):
            if position in details:
                target, reason, at_ms = details[position]
                self._names.append((row + offset, target, reason or None, at_ms * 1000 or None))

    def take(self) -> pa.RecordBatch:
        """Return the rows so far, in order (by ROWS), and start the next batch within the same record."""
        made = self._batch()
        self.rows = 0
        self._heads = self._heads[-1:]
        self._pieces, self._own, self._names, self._ids = [], [], [], []
        return made

    def _batch(self) -> pa.RecordBatch:
        heads, writers, *numbers = zip(*self._pieces, strict=True) if self._pieces else [()] * 7
        attempts, firsts, sizes, rows, codes = (np.array(column, dtype=np.int64) for column in numbers)
        piece: npt.NDArray[np.int64] = np.repeat(np.arange(len(rows)), rows)
        within = np.arange(self.rows) - (np.cumsum(rows) - rows)[piece]
        size = np.maximum(sizes, 1)[piece]
        positions, code = within % size, codes[piece]
        for row, own_places, own_codes in self._own:
            positions[row : row + len(own_places)] = own_places
            code[row : row + len(own_codes)] = own_codes
        head = np.array(heads, dtype=np.int64)[piece]
        named = self._named_columns()
        of_head = _Columns(self._heads, head)
        columns = [
            of_head.texts("task"),
            of_head.texts("app"),
            of_head.texts("channel"),
            pa.array(writers, pa.string()).take(pa.array(piece)),
            pa.array((firsts[piece] + within // size).astype(np.int32)),
            pa.array(positions.astype(np.int32)),
            pa.array(attempts[piece].astype(np.int32)),
            pa.array(OUTCOME_NAMES).take(pa.array(code)),
            pa.array(of_head.numbers("at_ms") * 1000).cast(pa.timestamp("us", tz="UTC")),
            pa.array(of_head.numbers("latency_ms")),
            named["target"],
            named["reason"],
            pa.array(np.full(self.rows, self._topic, dtype=np.int32)),
            of_head.texts("record"),
            named["died_at"],
            self._id_column(),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=ROWS)

    def _named_columns(self) -> dict[str, pa.Array]:
        """Return the columns target, reason and died_at."""
        kinds = {"target": pa.string(), "reason": pa.string(), "died_at": DIED}
        if not self._names:
            return {name: pa.nulls(self.rows, kind) for name, kind in kinds.items()}
        rows, *columns = zip(*self._names, strict=True)
        index: npt.NDArray[np.int64] = np.full(self.rows, -1, dtype=np.int64)
        index[list(rows)] = np.arange(len(rows))
        where = pa.array(index, mask=index < 0)
        values = zip(kinds.items(), columns, strict=True)
        return {name: pa.array(column, kind).take(where) for (name, kind), column in values}

    def _id_column(self) -> pa.Array:
        ids: list[str | None] = [None] * self.rows
        for row, provider_id in self._ids:
            ids[row] = provider_id
        return pa.array(ids, pa.string()) if self._ids else pa.nulls(self.rows, pa.string())


class _Columns:
    """Values of heads, repeated for each of their rows."""

    def __init__(self, heads: list[_Head], of_row: npt.NDArray[np.int64]) -> None:
        self._heads = heads
        self._of_row = of_row
        self._where = pa.array(of_row)

    def texts(self, name: str) -> pa.Array:
        return pa.array([getattr(head, name) for head in self._heads], pa.string()).take(self._where)

    def numbers(self, name: str) -> npt.NDArray[np.int64]:
        numbers: npt.NDArray[np.int64] = np.array([getattr(head, name) for head in self._heads], dtype=np.int64)
        taken: npt.NDArray[np.int64] = numbers[self._of_row]
        return taken
