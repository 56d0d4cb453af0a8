"""The parts of a world that a step reads and writes. A step that reads few parts runs once for each of their values,
whatever the other parts are: so millions of states cost thousands of steps of the real engine and ledger.

No step has to declare correctly what it reads: the other parts are hidden, and touching one is an error. Only a step
that reads SAID has to ask for no more than the claims that are named there.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any, NamedTuple

from tests.exploration.world import ENDED, OUTCOME, Step, WorldState

ONE, TWO, VIEW, LANE, ACKED, DONE, REST, CONTROL, EPOCH, ACKNOWLEDGED, DELETED, CALLS, LEFT = PARTS = range(13)
"""Parts of a world: fields that are mostly read together."""
_FIELDS = (
    ("one",), ("two",), ("view",), ("lane",), ("acked",), ("done",), ("rest",), ("control", "known"),
    ("epoch", "waiting", "marked"), ("acknowledged",), ("deleted",), ("called", "excused", "accepted"), ("left",),
)  # fmt: skip
_PART_OF = [part for part, names in enumerate(_FIELDS) for _ in names]
_SLICES = [slice(WorldState._fields.index(names[0]), WorldState._fields.index(names[-1]) + 1) for names in _FIELDS]
_SLICES += [_SLICES[REST]] * 2
HANDS = ("one", "two")
"""The two workers' parts, as a Menu calls them."""
SAID = SAID_BY_ONE, SAID_BY_TWO = len(PARTS), len(PARTS) + 1
"""The claims of one worker that REST names. A step that reads no more of REST sees an end record for each."""
NAMES = (
    *HANDS,
    *["view", "lane", "acked", "done", "rest", "control", "epoch", "acknowledged", "deleted", "calls", "left"],
    *["said_by_one", "said_by_two"],
)
"""How a Menu calls the parts, and what each worker said."""
assert [name for names in _FIELDS for name in names] == list(WorldState._fields)

Numbers = tuple[int, ...]
"""A world: of each part, its number in the table."""


class Unseen(Exception):
    """A step depends on a part that is hidden from it."""


class _Hidden:
    """Placeholder of a part. A step can pass it on, nothing else."""

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

    of: Callable[[WorldState], Iterable[Step]]
    reads: Sequence[str]


class Table:
    """The parts of worlds by number. Both workers' are numbered together, so that they can be exchanged."""

    def __init__(self) -> None:
        self._values: list[list[Any]] = [[] for _ in NAMES]
        self._numbers: list[dict[Any, int]] = [{} for _ in NAMES]
        self._values[TWO], self._numbers[TWO] = self._values[ONE], self._numbers[ONE]

    def number(self, part: int, value: Any) -> int:
        """value: its fields."""
        numbers = self._numbers[part]
        found = numbers.get(value)
        if found is None:
            found = numbers[value] = len(self._values[part])
            self._values[part].append(value)
        return found

    def number_of(self, part: int, world: WorldState) -> int:
        return self.number(part, world[_SLICES[part]])

    def numbers(self, world: WorldState) -> Numbers:
        return tuple([self.number_of(part, world) for part in PARTS])

    def value(self, part: int, number: int) -> Any:
        """Its fields."""
        return self._values[part][number]

    def named_claims(self, worker: int, rest: int) -> int:
        """Return what this rest says of a worker's claims."""
        (entries,) = self._values[REST][rest]
        names = {entry[-2:] for entry in entries if entry[0] in (OUTCOME, ENDED) and entry[-2] == worker}
        return self.number(SAID[worker], (tuple([(ENDED, *name) for name in sorted(names)]),))

    def world(self, seen: Mapping[int, int]) -> WorldState:
        """With these parts, all others hidden."""
        fields: list[Any] = [HIDDEN] * len(WorldState._fields)
        for part, number in seen.items():
            fields[_SLICES[part]] = self._values[part][number]
        return WorldState._make(fields)

    def changes(self, before: WorldState, step: Step) -> Change:
        after = step.world
        touched = {_PART_OF[at] for at, same in enumerate(map(is_, before, after)) if not same}
        to = [(part, self.number(part, after[_SLICES[part]])) for part in touched]
        return Change(step.fault, tuple(to), step.wrong)
