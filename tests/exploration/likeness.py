"""Worlds of which one stands for all, because they go on alike."""

from tests.exploration.footprint import ACKED, DONE, DOWN, LANE, LEFT, ONE, REST, TWO, VIEW, Numbers, Table
from tests.exploration.steps import Steps


class Likeness:
    """In numbers: what Steps.plain and Steps.exchanged do, a part at a time and remembered."""

    def __init__(self, table: Table, steps: Steps) -> None:
        self._table = table
        self._steps = steps
        self._none_left = table.number(LEFT, (0,))
        self._end = (table.number(LANE, ((),)), table.number(REST, ((),)))
        self._nothing_acked = table.number(ACKED, ((),))
        self._plain: dict[tuple[int, int], int] = {}
        self._named: dict[tuple[int, int], int] = {}
        self._exchanged: dict[tuple[int, int], int] = {}

    def of(self, numbers: list[int]) -> Numbers:
        """The world that stands for this one."""
        if not self._steps.reduced:
            return tuple(numbers)
        self._plain_part(numbers)
        one, two = numbers[ONE], numbers[TWO]
        if one < two:
            return tuple(numbers)
        exchanged = [*numbers]
        exchanged[ONE], exchanged[TWO] = two, one
        for part in (VIEW, REST, DOWN):
            known = self._exchanged.get((part, numbers[part]))
            exchanged[part] = self._exchange(part, numbers[part]) if known is None else known
        return tuple(exchanged if one > two or exchanged < numbers else numbers)

    def _plain_part(self, numbers: list[int]) -> None:
        """Changes it to one without what can matter no more."""
        known = self._named.get((numbers[VIEW], numbers[REST]))
        numbers[REST] = self._name(numbers[VIEW], numbers[REST]) if known is None else known
        if numbers[LEFT] == self._none_left:
            numbers[ACKED] = self._nothing_acked
            for part in (ONE, TWO, DONE):
                known = self._plain.get((part, numbers[part]))
                numbers[part] = self._plainly(part, numbers[part]) if known is None else known

    def is_end(self, numbers: Numbers) -> bool:
        """Whether nothing is in a lane, and all that was recorded is read."""
        return (numbers[LANE], numbers[REST]) == self._end

    def _plainly(self, part: int, number: int) -> int:
        (value,) = self._table.value(part, number)
        plain = self._steps.truth.summed(value) if part == DONE else value._replace(unrecorded=0)
        return self._plain.setdefault((part, number), self._table.number(part, (plain,)))

    def _name(self, view: int, rest: int) -> int:
        (state,), (entries,) = self._table.value(VIEW, view), self._table.value(REST, rest)
        named = self._steps.named(state, entries)
        return self._named.setdefault((view, rest), self._table.number(REST, (named,)))

    def _exchange(self, part: int, number: int) -> int:
        (value,) = self._table.value(part, number)
        exchanged = self._steps.exchange[part](value)
        return self._exchanged.setdefault((part, number), self._table.number(part, (exchanged,)))
