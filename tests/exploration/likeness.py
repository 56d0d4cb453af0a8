"""Groups of worlds that go on alike: one represents all."""

from functools import partial
from typing import Any

import numpy as np

from tests.exploration.footprint import ACKED, CALLS, DONE, LANE, LEFT, ONE, REST, TWO, VIEW, Table
from tests.exploration.rows import Columns, Hashes, Remembered, Rows
from tests.exploration.steps import Steps

_NAMING_WORKERS = (VIEW, REST)


class Likeness:
    """In numbers: what Steps.plain and Steps.exchanged do, a part at a time and remembered."""

    def __init__(self, table: Table, hashes: Hashes, steps: Steps) -> None:
        self._table = table
        self._steps = steps
        self._none_left = table.number(LEFT, (0,))
        self._end = (table.number(LANE, ((),)), table.number(REST, ((),)))
        self._nothing_acked = table.number(ACKED, ((),))
        self._named = Remembered(hashes, (VIEW, REST), self._name)
        self._called = Remembered(hashes, (CALLS,), self._call)
        self._summed = Remembered(hashes, (DONE,), self._sum)
        self._exchanged = {part: Remembered(hashes, (part,), partial(self._exchange, part)) for part in _NAMING_WORKERS}
        self._settled = [
            (me, [Remembered(hashes, (me, LANE), partial(self._settle, i, which)) for which in (0, 1)])
            for i, me in enumerate((ONE, TWO))
        ]
        self._both_settled: dict[tuple[int, ...], tuple[int, int]] = {}
        """Found out together, remembered one by one."""

    def of(self, worlds: Rows) -> Rows:
        """Replace each world by the one that represents its group."""
        if self._steps.reduced:
            worlds[CALLS] = self._called.of(worlds)
            worlds[REST] = self._named.of(worlds)
            self._make_plain(worlds, np.flatnonzero(worlds[LEFT] == self._none_left))
            self._make_first(worlds, np.flatnonzero(worlds[ONE] >= worlds[TWO]))
        return worlds

    def _make_plain(self, worlds: Rows, at: Columns) -> None:
        """Without what can matter no more, and after the steps that nobody can see."""
        worlds[ACKED, at] = self._nothing_acked
        worlds[DONE, at] = self._summed.of(worlds, at)
        for me, (hands, lane) in self._settled:
            settled = hands.of(worlds, at), lane.of(worlds, at)
            worlds[me, at], worlds[LANE, at] = settled

    def _make_first(self, worlds: Rows, at: Columns) -> None:
        """With the workers' names exchanged, if the numbers come before those that they are now."""
        before = worlds[:, at]
        after = before.copy()
        after[ONE], after[TWO] = before[TWO], before[ONE]
        for part, exchanged in self._exchanged.items():
            after[part] = exchanged.of(before)
        less, same = before[ONE] > before[TWO], before[ONE] == before[TWO]
        for part in _NAMING_WORKERS:
            less |= same & (after[part] < before[part])
            same &= after[part] == before[part]
        worlds[:, at[less]] = after[:, less]

    def ends(self, worlds: Rows) -> Columns:
        """Those with nothing in a lane, and with all that was recorded read."""
        lane, rest = self._end
        return np.flatnonzero((worlds[LANE] == lane) & (worlds[REST] == rest))

    def _settle(self, i: int, which: int, *numbers: int) -> int:
        """The worker or the lanes."""
        both = self._both_settled.get((i, *numbers))
        if both is None:
            both = self._both_settled[i, *numbers] = self._settle_both(i, *numbers)
        return both[which]

    def _settle_both(self, i: int, hands: int, lane: int) -> tuple[int, int]:
        me, steps = (ONE, TWO)[i], self._steps
        parts = {me: hands, LANE: lane, LEFT: self._none_left, ACKED: self._nothing_acked}
        world = self._table.world(parts)
        world = world.with_hands(i, steps.plain_hands(world.hands(i)))
        for step in steps.settling(i, world):
            world = step.world
        plain = steps.plain_hands(world.hands(i))
        return self._table.number(me, (plain,)), self._table.number_of(LANE, world)

    def _sum(self, number: int) -> int:
        (done,) = self._table.value(DONE, number)
        return self._table.number(DONE, (self._steps.truth.summed(done),))

    def _call(self, number: int) -> int:
        return self._table.number(CALLS, self._steps.plain_calls(self._table.value(CALLS, number)))

    def _name(self, view: int, rest: int) -> int:
        (state,), (entries,) = self._table.value(VIEW, view), self._table.value(REST, rest)
        return self._table.number(REST, (self._steps.named(state, entries),))

    def _exchange(self, part: int, number: int) -> int:
        (value,) = self._table.value(part, number)
        exchange: Any = self._steps.exchange[part]
        return self._table.number(part, (exchange(value),))
