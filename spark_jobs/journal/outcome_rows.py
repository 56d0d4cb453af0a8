"""Build rows of outcomes, one per target, in bulk: pieces of records in, Arrow batches out."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dispatcher.wire.outcome import OUTCOME_NAMES, Named, Outcomes, ProviderIds, Run
from spark_jobs.journal.first_outcomes import Piece

FULL_ROWS = 1 << 16
"""The approximate number of rows in a batch: a piece is never split."""
ROWS = pa.schema(
    [
        pa.field("task", pa.string(), nullable=False),
        pa.field("app", pa.string()),
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
        pa.field("died_at", pa.timestamp("us", tz="UTC")),
        pa.field("provider_id", pa.string()),
    ]
)
"""One final outcome of one target.

- app: null in records written before they had it.
- at: when it was recorded.
- latency_ms: see dispatcher.wire.outcome.Outcomes.
- target, reason: null where the record does not name it.
- died_at: of an invalid target, when the provider says that it died; null where it says no time.
- provider_id: the provider's id of a message that it took; null unless the channel's setting keep_ids is on.
- topic, record: the number of the outcome topic, and the record's position in it. Positions sort as text in topic
  order.
"""


_HEAD = pa.schema([ROWS.field(name) for name in ("task", "app", "channel", "at", "latency_ms", "topic", "record")])
"""The columns that all rows of one record share."""
_NAMED = pa.schema([ROWS.field(name) for name in ("target", "reason", "died_at")])
_IDS = pa.schema([ROWS.field("provider_id")])


class RowBuilder:
    """Collects pieces of records of one outcome topic until there are enough for a batch."""

    def __init__(self, topic: int) -> None:
        self.rows = 0
        self._topic = topic
        self._heads: list[dict[str, Any]] = []
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
        same = {name: getattr(record, name) for name in ("task", "channel", "latency_ms")}
        own = {"app": record.app or None, "at": record.at_ms * 1000, "topic": self._topic, "record": position}
        self._heads.append({**same, **own})
        self._named = {(each.writer, each.sequence): each for each in record.named}
        self._kept_ids = {(each.writer, each.sequence): each for each in record.provider_ids}

    def _add(self, piece: Piece) -> None:
        positions: range | list[int]
        if isinstance(piece, Run):
            first, count, positions, code = piece.first, piece.count, range(piece.size), piece.code
        else:
            first, count, positions, code = piece.sequence, 1, piece.positions, -1
            self._own.append((self.rows, piece.positions, piece.codes))
        size = len(positions)
        if self._named or self._kept_ids:
            for index in range(count):
                self._name(piece.writer, first + index, self.rows + index * size, positions)
        self._pieces.append((len(self._heads) - 1, piece.writer, piece.attempt, first, size, count * size, code))
        self.rows += count * size

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
        columns = {
            **_columns(pa.RecordBatch.from_pylist(self._heads, _HEAD), np.array(heads, dtype=np.int64)[piece]),
            "writer": pa.array(writers, pa.string()).take(pa.array(piece)),
            "sequence": pa.array((firsts[piece] + within // size).astype(np.int32)),
            "position": pa.array(positions.astype(np.int32)),
            "attempt": pa.array(attempts[piece].astype(np.int32)),
            "outcome": pa.array(OUTCOME_NAMES).take(pa.array(code)),
            **self._sparse(self._names, _NAMED),
            **self._sparse(self._ids, _IDS),
        }
        return pa.RecordBatch.from_arrays([columns[name] for name in ROWS.names], schema=ROWS)

    def _sparse(self, values: Sequence[tuple[Any, ...]], schema: pa.Schema) -> dict[str, pa.Array]:
        """Return columns that are null except in some rows. values: such a row, and its value in each column."""
        rows, *columns = zip(*values, strict=True) if values else [()] * (1 + len(schema))
        index: npt.NDArray[np.int64] = np.full(self.rows, -1, dtype=np.int64)
        index[list(rows)] = np.arange(len(rows))
        arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        return _columns(pa.RecordBatch.from_arrays(arrays, schema=schema), index)


def _columns(values: pa.RecordBatch, of_row: npt.NDArray[np.int64]) -> dict[str, pa.Array]:
    """Return the columns of a table by name, with the value for each row; of_row: its index, or -1 for null."""
    where = pa.array(of_row, mask=of_row < 0)
    return {name: column.take(where) for name, column in zip(values.schema.names, values.columns, strict=True)}
