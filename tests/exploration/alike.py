"""Whether worlds go on alike, found out by the steps that they have and not by what is in them.

Worlds are parted by where their steps lead, again and again until nothing is parted any more (refinement by signatures:
Blom and Orzan, 2003). What nobody can see does not part them: a step within a part, and the fold's reading of a record
or of an end of a claim that changes neither the view nor what the outcome topic says, so long as no other step sees
that either. What is then in one part is branching bisimilar; of what is in two, some may be too.
"""

from typing import Any

import numpy as np

from tests.exploration.footprint import DONE, PARTS, REST
from tests.exploration.menus import FAULT, SAME, WRONG
from tests.exploration.rows import Columns, Hashes, Rows
from tests.exploration.search import AT_ONCE, NO_PARENT, Search
from tests.exploration.world import ENDED, OUTCOME


class Graph:
    """The worlds of a whole search, with any others, and all steps between them."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._steps: list[tuple[Columns, Columns, Columns]] = []
        """The world before, the one after, and whether it is a fault or breaks which law."""
        self._followed = 0

    def add(self, worlds: Rows) -> Columns:
        """Their places, now that all that may follow them is there."""
        places = self._place(worlds)
        while self._followed < self._search.worlds.shape[1]:
            at = np.arange(self._followed, min(self._search.worlds.shape[1], self._followed + AT_ONCE))
            worlds = self._search.worlds[:, at]
            of, steps = self._search.menus.of(worlds)
            changes = steps[: len(PARTS)]
            after = self._place(np.where(changes == SAME, worlds[:, of], changes))
            self._steps.append((at[of], after, steps[FAULT] + 2 * steps[WRONG]))
            self._followed += len(at)
        return places

    def _place(self, worlds: Rows) -> Columns:
        return self._search.place(worlds, np.full(worlds.shape[1], NO_PARENT))

    def parts(self) -> Columns:
        """Return for each world the number of its part: worlds of one part go on alike."""
        before, after, kinds = map(np.concatenate, zip(*self._steps, strict=True))
        read_on = self._readings_of_nothing(before, after, kinds)
        ends = np.array([self._search.steps.is_good_end(world) for world in self._search.each()])
        while True:
            onward = np.arange(len(ends))
            onward[before[read_on]] = after[read_on]
            while (onward[onward] != onward).any():
                onward = onward[onward]
            parts = _refined(ends[onward].astype(np.int64), onward, before, after, kinds)
            seen = _sees_the_reading(parts, onward, before, after, kinds)
            if not seen.any():
                return parts
            read_on &= ~np.isin(before, before[seen])

    def _readings_of_nothing(self, before: Columns, after: Columns, kinds: Columns) -> Any:
        """Which of the steps are."""
        worlds = self._search.worlds
        reads = (kinds == 0) & (worlds[REST, before] != worlds[REST, after])
        for part in PARTS:
            if part not in (REST, DONE):
                reads &= worlds[part, before] == worlds[part, after]
        before, after = before[reads], after[reads]
        read = np.array([worlds[REST, before], worlds[REST, after], worlds[DONE, before], worlds[DONE, after]])
        sorts, of = np.unique(read, axis=1, return_inverse=True)
        reads[reads] = np.array([self._says_nothing(*sort) for sort in sorts.T.tolist()], np.bool_)[of.ravel()]
        return reads

    def _says_nothing(self, rest: int, after: int, done: int, done_after: int) -> bool:
        value, truth = self._search.table.value, self._search.steps.truth
        (before,), (left,) = value(REST, rest), value(REST, after)
        is_read = before[1:] == left and before[0][0] in (OUTCOME, ENDED)
        return bool(is_read and truth.of(*value(DONE, done)) == truth.of(*value(DONE, done_after)))


def _refined(parts: Columns, onward: Columns, before: Columns, after: Columns, kinds: Columns) -> Columns:
    """Parted until nothing is parted any more. Of a world that is read on, the steps of the one that it leads to."""
    stays = onward[before] == before
    before, after, kinds = before[stays], after[stays], kinds[stays]
    count = 0
    while count <= parts.max():
        count = int(parts.max()) + 1
        parts = _parted(parts, before, after, kinds)[onward]
    return parts


def _parted(parts: Columns, before: Columns, after: Columns, kinds: Columns) -> Columns:
    """By the parts that steps lead to, each counted once."""
    led = np.unique(_leads(parts[before], parts, after, kinds, before))
    worlds, leads = np.divmod(led[led >= 0], _spread(parts, kinds))
    hashes = Hashes(2)
    signs = hashes.of([parts], (0,))
    first = np.flatnonzero(np.diff(worlds, prepend=-1))
    if len(first):
        _, leads = np.unique(leads, return_inverse=True)
        signs[worlds[first]] ^= np.bitwise_xor.reduceat(hashes.of([None, leads], (1,)), first)
    return np.unique(signs, return_inverse=True)[1]


def _sees_the_reading(parts: Columns, onward: Columns, before: Columns, after: Columns, kinds: Columns) -> Any:
    """Which of the steps of worlds that are read on the world that they lead to has not."""
    left = onward[before] != before
    known = np.unique(_leads(parts[before], parts, after, kinds, before)[~left])
    wanted = _leads(parts[before], parts, after, kinds, onward[before])
    return left & (wanted >= 0) & ~np.isin(wanted, known)


def _leads(own: Columns, parts: Columns, after: Columns, kinds: Columns, of: Columns) -> Columns:
    """Return a number for each step's world, the part it leads to, and its kind; -1 within a part."""
    leads = of * _spread(parts, kinds) + parts[after] * (int(kinds.max(initial=0)) + 1) + kinds
    return np.where((own == parts[after]) & (kinds == 0), -1, leads)


def _spread(parts: Columns, kinds: Columns) -> int:
    return (int(parts.max(initial=0)) + 1) * (int(kinds.max(initial=0)) + 1)
