"""What a step reads and writes of a world. A step that reads a few parts only is found out once for them, whatever the
others are: so millions of states cost thousands of steps of the real engine and ledger.

Nobody has to be believed about what is read: the other parts are hidden, and who touches one is told so.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import is_, itemgetter
from typing import Any, NamedTuple

from tests.exploration.world import Step, World

ONE, TWO, VIEW, LANE, ACKED, DONE, REST, CONTROL, EPOCH, ACKNOWLEDGED, DELETED, CALLS, DOWN, LEFT = PARTS = range(14)
"""Parts of a world: fields that are mostly read together."""
_FIELDS = (
    ("one",), ("two",), ("view",), ("lane",), ("acked",), ("done",), ("rest",), ("control", "known"),
    ("epoch", "waiting", "marked"), ("acknowledged",), ("deleted",), ("called", "excused", "accepted"), ("down",),
    ("left",),
)  # fmt: skip
_PART_OF = [part for part, names in enumerate(_FIELDS) for _ in names]
_SLICES = [slice(World._fields.index(names[0]), World._fields.index(names[-1]) + 1) for names in _FIELDS]
HANDS = ("one", "two")
"""The two workers' parts, by the names that a Menu gives parts."""
_NAMES = (
    *HANDS,
    *["view", "lane", "acked", "done", "rest", "control", "epoch", "acknowledged", "deleted", "calls", "down", "left"],
)
assert [name for names in _FIELDS for name in names] == list(World._fields)

Numbers = tuple[int, ...]
"""A world: of each part, its number in the table."""


class Unseen(Exception):
    """A step depends on a part that is hidden from it."""


class _Hidden:
    """Stands for a part. It can be handed on, nothing else."""

    def __getattr__(self, name: str) -> Any:
        raise Unseen

    def _touched(self, *_: object) -> Any:
        raise Unseen

    __bool__ = __iter__ = __len__ = __contains__ = __getitem__ = __hash__ = __eq__ = __ne__ = _touched
    __lt__ = __le__ = __gt__ = __ge__ = __int__ = __index__ = __neg__ = __invert__ = __sub__ = __rsub__ = _touched
    __add__ = __radd__ = __and__ = __rand__ = __or__ = __ror__ = __lshift__ = __rshift__ = __repr__ = _touched


HIDDEN: Any = _Hidden()


class Change(NamedTuple):
    """A step, in numbers. to: parts and what they become."""

    fault: bool
    to: tuple[tuple[int, int], ...]
    wrong: str


@dataclass(frozen=True)
class Menu:
    """Steps of one sort. reads: names of parts that may do, the fewest first; of the first, a single one, it depends
    whether there are any of these steps at all."""

    of: Callable[[World], Iterable[Step]]
    reads: Sequence[str]


class Table:
    """The parts of worlds by number. Both workers' are numbered together, so that they can be exchanged."""

    def __init__(self) -> None:
        self._values: list[list[Any]] = [[] for _ in PARTS]
        self._numbers: list[dict[Any, int]] = [{} for _ in PARTS]
        self._values[TWO], self._numbers[TWO] = self._values[ONE], self._numbers[ONE]

    def number(self, part: int, value: Any) -> int:
        """value: its fields."""
        numbers = self._numbers[part]
        found = numbers.get(value)
        if found is None:
            found = numbers[value] = len(self._values[part])
            self._values[part].append(value)
        return found

    def number_of(self, part: int, world: World) -> int:
        return self.number(part, world[_SLICES[part]])

    def numbers(self, world: World) -> Numbers:
        return tuple([self.number_of(part, world) for part in PARTS])

    def value(self, part: int, number: int) -> Any:
        """Its fields."""
        return self._values[part][number]

    def world(self, numbers: Sequence[int], seen: Iterable[int] = PARTS) -> World:
        fields: list[Any] = [HIDDEN] * len(World._fields)
        for part in seen:
            fields[_SLICES[part]] = self._values[part][numbers[part]]
        return World(*fields)

    def changes(self, before: World, step: Step) -> Change:
        after = step.world
        touched = {_PART_OF[at] for at, same in enumerate(map(is_, before, after)) if not same}
        to = []
        for part in sorted(touched):
            new = after[_SLICES[part]]
            if any(value is HIDDEN for value in new):
                raise Unseen
            to.append((part, self.number(part, new)))
        return Change(step.fault, tuple(to), step.wrong)


_MORE: list[Change] = []
"""Says that these parts do not do."""


class _Course:
    """One menu, as far as it is known."""

    def __init__(self, menu: Menu, table: Table) -> None:
        self._of = menu.of
        self._table = table
        first, *more = ([_NAMES.index(name) for name in reads.split()] for reads in menu.reads)
        (self.first,) = first
        self._known: list[tuple[Callable[[Numbers], Any], Sequence[int], dict[Any, list[Change]]]]
        self._known = [(itemgetter(*reads), reads, {}) for reads in more]

    def closed(self, number: int) -> bool:
        """Whether there are none of these steps, by the first part alone."""
        numbers = [number] * len(PARTS)
        try:
            return not list(self._of(self._table.world(numbers, (self.first,))))
        except Unseen:
            return False

    def changes(self, numbers: Numbers) -> list[Change]:
        for getter, reads, known in self._known:
            key = getter(numbers)
            found = known.get(key)
            if found is None:
                found = known[key] = self._found(numbers, reads)
            if found is not _MORE:
                return found
        raise AssertionError(f"{self._of} depends on more than it says")

    def _found(self, numbers: Numbers, reads: Sequence[int]) -> list[Change]:
        world = self._table.world(numbers, reads)
        try:
            return [self._table.changes(world, step) for step in self._of(world)]
        except Unseen:
            return _MORE


class Menus:
    """The steps that may follow, in numbers. alone: if there is one of a menu of these, no others need be tried."""

    def __init__(self, table: Table, alone: Sequence[Menu], others: Sequence[Menu]) -> None:
        self._alone = [_Course(menu, table) for menu in alone]
        self._others = [_Course(menu, table) for menu in others]
        self._open: list[tuple[int, dict[int, tuple[list[_Course], list[_Course]]]]]
        self._open = [(part, {}) for part in sorted({course.first for course in (*self._alone, *self._others)})]

    def of(self, numbers: Numbers) -> list[Change]:
        found: list[Change] = []
        others: list[_Course] = []
        for part, known in self._open:
            opened = known.get(numbers[part])
            if opened is None:
                opened = known[numbers[part]] = self._opened(part, numbers[part])
            for course in opened[0]:
                changes = course.changes(numbers)
                if changes:
                    return changes
            if opened[1]:
                others += opened[1]
        for course in others:
            found += course.changes(numbers)
        return found

    def _opened(self, part: int, number: int) -> tuple[list[_Course], list[_Course]]:
        alone, others = (
            [course for course in courses if course.first == part and not course.closed(number)]
            for courses in (self._alone, self._others)
        )
        return alone, others
