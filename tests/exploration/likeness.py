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
        self._reached = {
            table.number(DOWN, (down,)): [(i, me) for i, me in enumerate((ONE, TWO)) if not down >> i & 1]
            for down in (0, 1, 2)
        }
        self._settled: dict[tuple[int, int], tuple[int, int]] = {}
        self._plain: dict[tuple[int, int, int], int] = {}
        self._named: dict[tuple[int, int], int] = {}
        self._exchanged: dict[tuple[int, int], int] = {}

    def of(self, numbers: list[int]) -> Numbers:
        """The world that stands for this one."""
        if not self._steps.reduced:
            return tuple(numbers)
        self._plain_part(numbers)
        if numbers[LEFT] == self._none_left:
            self._settle(numbers)
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
            down = numbers[DOWN]
            for part in (ONE, TWO, DONE):
                known = self._plain.get((part, numbers[part], down))
                numbers[part] = self._plainly(part, numbers[part], down) if known is None else known

    def _settle(self, numbers: list[int]) -> None:
        """Changes it to what becomes of it by acks and publishing that nobody can see."""
        for i, me in self._reached[numbers[DOWN]]:
            before = (numbers[me], numbers[LANE])
            known = self._settled.get(before)
            numbers[me], numbers[LANE] = self._find_settled(i, me, numbers) if known is None else known

    def _find_settled(self, i: int, me: int, numbers: list[int]) -> tuple[int, int]:
        before = (numbers[me], numbers[LANE])
        world = self._table.world(numbers, (me, LANE, ACKED, DOWN, LEFT))
        for step in self._steps.settling(i, world):
            world = step.world
        hands = self._steps.plain_hands(world.hands(i), 0)
        self._settled[before] = self._table.number(me, (hands,)), self._table.number_of(LANE, world)
        return self._settled[before]

    def is_end(self, numbers: Numbers) -> bool:
        """Whether nothing is in a lane, and all that was recorded is read."""
        return (numbers[LANE], numbers[REST]) == self._end

    def _plainly(self, part: int, number: int, down: int) -> int:
        (value,), (bits,) = self._table.value(part, number), self._table.value(DOWN, down)
        if part == DONE:
            plain = self._steps.truth.summed(value)
        else:
            plain = self._steps.plain_hands(value, bits >> (part == TWO) & 1)
        return self._plain.setdefault((part, number, down), self._table.number(part, (plain,)))

    def _name(self, view: int, rest: int) -> int:
        (state,), (entries,) = self._table.value(VIEW, view), self._table.value(REST, rest)
        named = self._steps.named(state, entries)
        return self._named.setdefault((view, rest), self._table.number(REST, (named,)))

    def _exchange(self, part: int, number: int) -> int:
        (value,) = self._table.value(part, number)
        exchanged = self._steps.exchange[part](value)
        return self._exchanged.setdefault((part, number), self._table.number(part, (exchanged,)))
