"""Whether worlds go on alike, found out by the steps that they have and not by what is in them.

Worlds are parted by where their steps lead, again and again until nothing is parted any more (refinement by signatures:
Blom and Orzan, 2003). What nobody can see does not part them: a step within a part (branching bisimulation), and the
fold's reading of what changes neither the view nor what the outcome topic says, which is always possible.
"""

from typing import Any

import numpy as np

from tests.exploration.footprint import DONE, PARTS, REST
from tests.exploration.menus import FAULT, SAME, WRONG
from tests.exploration.rows import Columns, Hashes, Rows
from tests.exploration.search import AT_ONCE, Search


class Graph:
    """The worlds of a whole search, with any others, and all steps between them."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._edges: list[tuple[Columns, Columns, Columns]] = []
        """Of each step the world before, the one after, and whether it is a fault or breaks which law."""
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
            self._edges.append((at[of], after, steps[FAULT] + 2 * steps[WRONG]))
            self._followed += len(at)
        return places

    def _place(self, worlds: Rows) -> Columns:
        return self._search.place(worlds, np.full(worlds.shape[1], -1))

    def parts(self) -> Columns:
        """Of each world the number of its part: those of one part go on alike."""
        before, after, kinds = map(np.concatenate, zip(*self._edges, strict=True))
        onward = self._onward(before, after)
        stays = onward[before] == before
        before, after, kinds = before[stays], onward[after[stays]], kinds[stays]
        parts, count = self._are_ends()[onward].astype(np.int64), 0
        while count <= parts.max():
            count = int(parts.max()) + 1
            parts = _parted(parts, before, after, kinds)
        return parts[onward]

    def _onward(self, before: Columns, after: Columns) -> Columns:
        """Of each world the one in which all that is nothing has been read."""
        worlds, onward = self._search.worlds, np.arange(self._search.worlds.shape[1])
        alike = (worlds[REST, before] != worlds[REST, after]) & np.logical_and.reduce(
            [worlds[part, before] == worlds[part, after] for part in PARTS if part not in (REST, DONE)]
        )
        before, after = before[alike], after[alike]
        read = np.array([worlds[REST, before], worlds[REST, after], worlds[DONE, before], worlds[DONE, after]])
        kinds, of = np.unique(read, axis=1, return_inverse=True)
        nothing = np.array([self._says_nothing(*kind) for kind in kinds.T.tolist()], np.bool_)[of.ravel()]
        onward[before[nothing]] = after[nothing]
        while (onward[onward] != onward).any():
            onward = onward[onward]
        return onward

    def _says_nothing(self, rest: int, after: int, done: int, done_after: int) -> bool:
        value, truth = self._search.table.value, self._search.steps.truth
        is_read = value(REST, rest)[0][1:] == value(REST, after)[0]
        return bool(is_read and truth.of(*value(DONE, done)) == truth.of(*value(DONE, done_after)))

    def _are_ends(self) -> Any:
        return np.array([self._search.steps.is_good_end(world) for world in self._search.each()])


def _parted(parts: Columns, before: Columns, after: Columns, kinds: Columns) -> Columns:
    """By the parts that steps lead to, each counted once."""
    seen = (parts[before] != parts[after]) | (kinds != 0)
    many = int(kinds.max()) + 1
    leads = parts[after[seen]] * many + kinds[seen]
    spread = int(leads.max()) + 1
    led = np.unique(before[seen] * spread + leads)
    worlds, leads = led // spread, led % spread
    hashes = Hashes(2)
    signs = hashes.of([parts], (0,))
    first = np.flatnonzero(np.diff(worlds, prepend=-1))
    signs[worlds[first]] ^= np.bitwise_xor.reduceat(hashes.of([None, leads], (1,)), first)
    return np.unique(signs, return_inverse=True)[1]
