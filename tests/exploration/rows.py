"""Worlds by the thousand: what concerns one number of each concerns all of them at once."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Rows = Any
"""Worlds in numbers: an array with a row for each part, in it a column for each world."""
Columns = Any
"""An array of column numbers: which of the worlds."""


class Growing:
    """An array of rows to which columns are added. Its length is what it was filled to."""

    def __init__(self, rows: int) -> None:
        self._all: Any = np.empty((rows, 1024), np.int32)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def rows(self) -> Rows:
        return self._all[:, : self._length]

    def add(self, columns: Rows) -> None:
        length = self._length + columns.shape[1]
        while length > self._all.shape[1]:
            self._all = np.concatenate([self._all, np.empty_like(self._all)], axis=1)
        self._all[:, self._length : length] = columns
        self._length = length


class Hashes:
    """Hashes of worlds or of some of their parts: 64 random bits for each number of each part, combined by exclusive
    or (Zobrist, 1970). Two of ten million worlds have the same hash with a chance of three in a million."""

    def __init__(self, parts: int) -> None:
        self._random = np.random.default_rng(5)
        self._of = [self._some() for _ in range(parts)]

    def of(self, rows: Rows, parts: Sequence[int], at: Columns | None = None) -> Any:
        """at: of these columns only."""
        found: Any = 0
        for part in parts:
            numbers = rows[part] if at is None else rows[part][at]
            found ^= self._table(part, numbers)[numbers]
        return found

    def _table(self, part: int, numbers: Any) -> Any:
        most = int(numbers.max(initial=0))
        while most >= len(self._of[part]):
            self._of[part] = np.concatenate([self._of[part], self._some()])
        return self._of[part]

    def _some(self) -> Any:
        return self._random.integers(1 << 64, size=4096, dtype=np.uint64)


class Known:
    """The number given for each hash: an open-addressed table with linear probing."""

    def __init__(self) -> None:
        self._count = 0
        self._slots: Any = np.zeros(0, np.int32)
        """For each slot the place of its entry plus 1, or 0."""
        self._hashes: Any = np.empty(1024, np.uint64)
        self._given: Any = np.empty(1024, np.int32)

    def of(self, hashes: Any) -> tuple[Any, Any]:
        """Return the numbers given, and where none was."""
        if not self._count:
            return np.zeros(len(hashes), np.int32), np.ones(len(hashes), np.bool_)
        place = self._slots[self._slot(hashes)] - 1
        return self._given[place], place < 0

    def give(self, hashes: Any, given: Any) -> None:
        """hashes: new, each once."""
        count = self._count + len(hashes)
        while count > len(self._hashes):
            self._hashes, self._given = (np.concatenate([all_, all_]) for all_ in (self._hashes, self._given))
        self._hashes[self._count : count] = hashes
        self._given[self._count : count] = given
        self._count, before = count, self._count
        if 2 * count > len(self._slots):
            self._slots, before = np.zeros(8 * len(self._hashes), np.int32), 0
        self._fill(np.arange(before, count))

    def _fill(self, places: Columns) -> None:
        """Where several ask for a slot, one gets it and the others ask again."""
        while len(places):
            slots = self._slot(self._hashes[places])
            self._slots[slots] = places + 1
            places = places[self._slots[slots] != places + 1]

    def _slot(self, hashes: Any) -> Any:
        """Return for each hash the slot that holds it, or the free one that it would get."""
        last = len(self._slots) - 1
        slots = (hashes & np.uint64(last)).astype(np.int64)
        left = np.arange(len(hashes))
        while len(left):
            place = self._slots[slots[left]]
            left = left[(place != 0) & (self._hashes[place - 1] != hashes[left])]
            slots[left] = (slots[left] + 1) & last
        return slots


class Remembered:
    """A function of some parts only, called once for each combination of their numbers. find: the function."""

    def __init__(self, hashes: Hashes, parts: Sequence[int], find: Callable[..., int]) -> None:
        self._hashes = hashes
        self._parts = parts
        self._find = find
        self._known = Known()

    def of(self, rows: Rows, at: Columns | None = None) -> Any:
        """at: of these columns only."""
        hashes = self._hashes.of(rows, self._parts, at)
        found, new = self._known.of(hashes)
        if new.any():
            self._find_out(rows, np.flatnonzero(new) if at is None else at[new], hashes[new])
            found, _ = self._known.of(hashes)
        return found

    def _find_out(self, rows: Rows, at: Columns, hashes: Any) -> None:
        some, first = np.unique(hashes, return_index=True)
        numbers = rows[list(self._parts)][:, at[first]].T.tolist()
        self._known.give(some, [self._find(*given) for given in numbers])
