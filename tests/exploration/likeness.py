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
        self._workers = {
            table.number(DOWN, (down,)): [(i, me, down >> i & 1) for i, me in enumerate((ONE, TWO))]
            for down in (0, 1, 2)
        }
        self._settled: dict[tuple[int, int, int], tuple[int, int]] = {}
        self._summed: dict[int, int] = {}
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
        """Changes it to one without what can matter no more, and after the steps that nobody can see."""
        known = self._named.get((numbers[VIEW], numbers[REST]))
        numbers[REST] = self._name(numbers[VIEW], numbers[REST]) if known is None else known
        if numbers[LEFT] != self._none_left:
            return
        numbers[ACKED] = self._nothing_acked
        known = self._summed.get(numbers[DONE])
        numbers[DONE] = self._sum(numbers[DONE]) if known is None else known
        for i, me, down in self._workers[numbers[DOWN]]:
            before = (numbers[me], numbers[LANE], down)
            settled = self._settled.get(before)
            numbers[me], numbers[LANE] = self._settle(i, me, down, numbers) if settled is None else settled

    def _settle(self, i: int, me: int, down: int, numbers: list[int]) -> tuple[int, int]:
        """The worker and the lanes. down: whether Redis may not answer it any more."""
        before = (numbers[me], numbers[LANE], down)
        world = self._table.world(numbers, (me, LANE, ACKED, DOWN, LEFT))
        world = world.with_hands(i, self._steps.plain_hands(world.hands(i), down))
        for step in self._steps.settling(i, world):
            world = step.world
        hands = self._steps.plain_hands(world.hands(i), down)
        self._settled[before] = self._table.number(me, (hands,)), self._table.number_of(LANE, world)
        return self._settled[before]

    def is_end(self, numbers: Numbers) -> bool:
        """Whether nothing is in a lane, and all that was recorded is read."""
        return (numbers[LANE], numbers[REST]) == self._end

    def _sum(self, number: int) -> int:
        (done,) = self._table.value(DONE, number)
        return self._summed.setdefault(number, self._table.number(DONE, (self._steps.truth.summed(done),)))

    def _name(self, view: int, rest: int) -> int:
        (state,), (entries,) = self._table.value(VIEW, view), self._table.value(REST, rest)
        named = self._steps.named(state, entries)
        return self._named.setdefault((view, rest), self._table.number(REST, (named,)))

    def _exchange(self, part: int, number: int) -> int:
        (value,) = self._table.value(part, number)
        exchanged = self._steps.exchange[part](value)
        return self._exchanged.setdefault((part, number), self._table.number(part, (exchanged,)))
