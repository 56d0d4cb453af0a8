"""The steps that may follow, in numbers, in many worlds at once."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from tests.exploration.footprint import NAMES, PARTS, REST, SAID, Change, Menu, Table, Unseen
from tests.exploration.rows import Columns, Growing, Hashes, Remembered, Rows

SAME = -1
"""Mark of a part that a step does not change."""
FAULT, WRONG = len(PARTS), len(PARTS) + 1
"""Rows of a step behind those of the parts: whether it is a fault, and the number of the law that it breaks, or 0."""
_NO_STEPS, _MORE = 0, -1
"""Instead of the number of a list of steps: there are none; these parts do not do."""


class Menus:
    """alone: if there is a step of a menu of these, no others need be tried. laws: those broken, by number."""

    def __init__(self, table: Table, hashes: Hashes, alone: Sequence[Menu], others: Sequence[Menu]) -> None:
        self._lists = lists = _Lists()
        self.laws = lists.laws
        self._courses = [(_Course(menu, table, hashes, lists), menu in alone) for menu in (*alone, *others)]
        self._named_claims = [Remembered(hashes, (REST,), partial(table.named_claims, worker)) for worker in (0, 1)]

    def of(self, worlds: Rows) -> tuple[Columns, Rows]:
        """Return for each step the place of its world, and the parts after it, with FAULT and WRONG."""
        worlds = np.concatenate([worlds, [claims.of(worlds) for claims in self._named_claims]])
        left = np.arange(worlds.shape[1])
        found = []
        for course, is_alone in self._courses:
            lists = course.of(worlds, left)
            some = lists != _NO_STEPS
            found.append((left[some], lists[some]))
            left = left[~some] if is_alone else left
        return self._lists.spread(*map(np.concatenate, zip(*found, strict=True)))


class _Lists:
    """Lists of steps by number; the first is empty."""

    def __init__(self) -> None:
        self.laws = [""]
        self._steps, self._bounds = Growing(len(PARTS) + 2), Growing(2)
        self._new_steps: list[list[int]] = []
        self._new_bounds = [[0, 0]]

    def note(self, steps: Sequence[Change]) -> int:
        if not steps:
            return _NO_STEPS
        begin = len(self._steps) + len(self._new_steps)
        self._new_steps += [self._row(step) for step in steps]
        self._new_bounds.append([begin, len(steps)])
        return len(self._bounds) + len(self._new_bounds) - 1

    def _row(self, step: Change) -> list[int]:
        row = [SAME] * len(PARTS)
        for part, number in step.to:
            row[part] = number
        if step.wrong not in self.laws:
            self.laws.append(step.wrong)
        return [*row, step.fault, self.laws.index(step.wrong)]

    def spread(self, at: Columns, lists: Any) -> tuple[Columns, Rows]:
        """Return the place of each step in these lists, and the step."""
        self._keep()
        begin, count = self._bounds.rows[:, lists]
        before = np.cumsum(count) - count
        steps = np.arange(count.sum()) + np.repeat(begin - before, count)
        return np.repeat(at, count), self._steps.rows[:, steps]

    def _keep(self) -> None:
        for kept, new in ((self._steps, self._new_steps), (self._bounds, self._new_bounds)):
            if new:
                kept.add(np.array(new, np.int32).T)
                new.clear()


def _numbers(names: Sequence[str]) -> list[int]:
    """Return the numbers of parts. Each counts once: equal hashes cancel each other. REST is read whole or not."""
    numbers = [NAMES.index(name) for name in names]
    assert len(set(numbers)) == len(numbers), names
    assert REST not in numbers or not {*SAID} & {*numbers}, names
    return numbers


class _Course:
    """One menu, as far as it is known."""

    def __init__(self, menu: Menu, table: Table, hashes: Hashes, lists: _Lists) -> None:
        self._of = menu.of
        self._table = table
        self._lists = lists
        first, *more = (_numbers(reads.split()) for reads in menu.reads)
        self._first = first
        self._open = Remembered(hashes, first, self._is_open)
        self._known = [Remembered(hashes, reads, partial(self._found, reads)) for reads in more]

    def of(self, worlds: Rows, at: Columns) -> Any:
        """At each of these places the number of its list."""
        found: Any = np.zeros(len(at), np.int32)
        left = np.flatnonzero(self._open.of(worlds, at))
        for known in self._known:
            lists = known.of(worlds, at[left])
            found[left] = lists
            left = left[lists == _MORE]
        assert not len(left), f"{self._of} depends on more than it says"
        return found

    def _is_open(self, number: int) -> bool:
        """Whether there may be any of these steps, by the first part alone."""
        try:
            return bool(self._steps(self._first, number))
        except Unseen:
            return True

    def _found(self, reads: Sequence[int], *numbers: int) -> int:
        try:
            return self._lists.note(self._steps(reads, *numbers))
        except Unseen:
            return _MORE

    def _steps(self, reads: Sequence[int], *numbers: int) -> list[Change]:
        world = self._table.world(dict(zip(reads, numbers, strict=True)))
        steps = [*self._of(world)]
        if REST not in reads and any(step.world.rest is not world.rest for step in steps):
            raise Unseen
        return [self._table.changes(world, step) for step in steps]
