"""Live tasks in memory: select, sort and page them. Pure functions of the tasks that the board holds."""

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple, Self

import msgspec

from dispatcher.analysis.failing import shown_state
from dispatcher.model.errors import DECODING_ERRORS, InvalidInput
from dispatcher.model.view import Globals, TaskView
from producers.desk.board.groups import TaskGroup, grouped
from producers.desk.scoped_ids import AS_IS, ScopedIds

SORTS = ("created", "eta", "rate", "pending", "id")
Value = float | str
COUNTED = ("app", "state", "tier", "channel")
"""Fields by which live tasks are counted."""
CONSOLE = ("eta", "_groups", "_odd", "_shown_counts")
"""Parts that the first pages of the console need: they are made for all lists, so that nobody waits for them."""
_INTERNAL = ScopedIds("")
_BLOCK = 2_000
"""Tasks that are filtered at once: most pages are found in the first ones."""
_decode = msgspec.json.Decoder(tuple[str, float | str | None, str]).decode


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which live tasks. None selects any value."""

    id: str | None = None
    """The internal id of the only task."""
    app: str | None = None
    state: str | None = None
    tier: str | None = None
    channel: str | None = None
    id_prefix: str | None = None
    q: str | None = None
    """A part of the id; if no app is selected, also of the app."""
    shown: str | None = None
    """The state as of dispatcher.analysis.failing.shown_state; known to `Lists` alone."""
    ids: ScopedIds = _INTERNAL
    """How the ids are shown in which `id_prefix` and `q` are looked for."""

    def missed(self, values: Sequence[str]) -> list[str]:
        """Return those of COUNTED of which it does not select these values."""
        return [name for name, value in zip(COUNTED, values, strict=True) if getattr(self, name) not in (None, value)]

    def among(self, tasks: Iterable[TaskView]) -> list[TaskView]:
        """Return those of the tasks that it selects."""
        found = list(tasks)
        for name in ("id", *COUNTED):
            if (value := getattr(self, name)) is not None:
                field = attrgetter(name)
                found = [task for task in found if field(task) == value]
        shown = self.ids.shown
        if bare := (self.id_prefix or "").removeprefix(AS_IS):  # most ids are ruled out without the work to show them
            found = [task for task in found if bare in task.id]
        if (prefix := self.id_prefix) is not None:
            found = [task for task in found if shown(task.id).startswith(prefix)]
        if (part := self.q) is not None:
            bare = part.removeprefix(AS_IS)
            found = [
                task
                for task in found
                if (part in task.app and not self.app) or (bare in task.id and part in shown(task.id))
            ]
        return found


class Sort(NamedTuple):
    """An order of tasks; those with equal values are in the order of their ids."""

    by: str = "created"
    """One of SORTS."""
    descending: bool = True

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a name of SORTS; `-` before it: descending. Raises InvalidInput."""
        by = text.removeprefix("-")
        if by not in SORTS:
            raise InvalidInput(f"sort: is {text!r}; it must be one of {', '.join(SORTS)}, or one with - before it.")
        return cls(by, text.startswith("-"))

    def __str__(self) -> str:
        return f"{'-' if self.descending else ''}{self.by}"

    def cursor(self, key: tuple[Value, str]) -> str:
        """Return the cursor after a row: its value and id."""
        return msgspec.json.encode((str(self), *key)).hex()  # an infinite value is null

    def after(self, cursor: str | None) -> tuple[Value, str] | None:
        """Return the value and id in a cursor. Raises InvalidInput if it is none of this order."""
        if cursor is None:
            return None
        try:
            sort, value, id_ = _decode(bytes.fromhex(cursor))
        except DECODING_ERRORS:
            sort, value, id_ = "", None, ""
        if sort != str(self) or isinstance(value, str) != (self.by == "id"):
            raise InvalidInput(
                f"cursor: {cursor[:100]!r} is no cursor of the order {self}.", "Use the cursor of the page before."
            )
        return math.inf if value is None else value, id_


class Lists:
    """Live tasks in every order, at one moment."""

    def __init__(
        self,
        tasks: Iterable[TaskView] = (),
        etas: Mapping[str, float] | None = None,
        now_ms: int = 0,
        settings: Globals | None = None,
    ) -> None:
        """etas: seconds until done by task; tasks without one come last. now_ms: their wall time. settings: of the
        service, which may pause channels and apps."""
        self.used = {*CONSOLE}
        """The orders that are asked for, the groups, and the counts by shown state."""
        self._etas = etas or {}
        self._tasks = list(tasks)
        self._now_ms = now_ms
        self._settings = settings
        self._orders: dict[str, list[TaskView]] = {}

    def prepare(self, used: Iterable[str]) -> bool:
        """Make one of these orders, the counts, or the groups. Return False if all were made: others are made when they
        are asked for. With many tasks each takes some 50 ms in which no other thread runs."""
        for by in ("id", *used):
            if by in SORTS and by not in self._orders:
                self._order(by)
                return True
        for name in ("_counts", *(name for name in used if name not in SORTS)):
            if name not in self.__dict__:
                getattr(self, name)
                return True
        return False

    @cached_property
    def _counts(self) -> Counter[tuple[str, ...]]:
        return Counter(map(attrgetter(*COUNTED), self._tasks))

    @cached_property
    def _groups(self) -> list[TaskGroup]:
        return grouped(self._tasks)

    @cached_property
    def _odd(self) -> dict[str, tuple[TaskView, str]]:
        """Tasks whose shown state is not their own, and that state, by id."""
        etas, now_ms, settings, odd = self._etas, self._now_ms, self._settings, dict[str, tuple[TaskView, str]]()
        for task in self._tasks:
            if (state := shown_state(task, etas.get(task.id), now_ms, settings)) != task.state:
                odd[task.id] = task, state
        return odd

    @cached_property
    def _shown_counts(self) -> Counter[tuple[str, ...]]:
        return _moved(self._counts.copy(), self._odd.values())

    def groups(self) -> list[TaskGroup]:
        """Return the tasks in groups."""
        self.used.add("_groups")
        return self._groups

    def page(
        self, selection: Selection, sort: Sort, limit: int, cursor: str | None = None
    ) -> tuple[list[TaskView], str | None]:
        """Return the selected tasks after a cursor, and the cursor of the next page. Raises InvalidInput."""
        found: list[TaskView] = []
        counts, wanted = self._counts, selection
        if selection.shown:
            counts, wanted = self._shown_counts, replace(selection, state=selection.shown)
        most = sum(count for values, count in counts.items() if not wanted.missed(values))
        for block in self._blocks(sort, sort.after(cursor)):
            if len(found) == most:  # of a rare state: the other tasks need no look
                break
            found += selection.among(self._shown_as(selection.shown, block))
            if len(found) > limit:
                return found[:limit], sort.cursor(self._key(sort.by)(found[limit - 1]))
        return found, None

    def _shown_as(self, state: str | None, tasks: list[TaskView]) -> list[TaskView]:
        odd = self._odd if state else {}
        return [task for task in tasks if odd.get(task.id, (task, task.state))[1] == state] if state else tasks

    def counts(self, app: str = "") -> dict[str, dict[str, int]]:
        """Return the number of tasks by value of each of COUNTED; app: only of its own, empty: of all."""
        counts: dict[str, Counter[str]] = {name: Counter() for name in COUNTED}
        for values, count in self._counts.items():
            if app in ("", values[0]):
                for name, value in zip(COUNTED, values, strict=True):
                    counts[name][value] += count
        return {name: dict(count) for name, count in counts.items()}

    def facets(self, selection: Selection) -> dict[str, dict[str, int]]:
        """Return the number of tasks by value of each of COUNTED, the state as it is shown: those that all other fields
        of a selection select."""
        counts = self._shown_counts
        if selection.q or selection.id_prefix:
            named = replace(selection, app=None, state=None, tier=None, channel=None).among(self._tasks)
            odd = (self._odd[task.id] for task in named if task.id in self._odd)
            counts = _moved(Counter(map(attrgetter(*COUNTED), named)), odd)
        facets: dict[str, Counter[str]] = {name: Counter() for name in COUNTED}
        wanted = replace(selection, state=selection.shown)
        for values, count in counts.items():
            given, missed = dict(zip(COUNTED, values, strict=True)), wanted.missed(values)
            for name in missed if len(missed) == 1 else () if missed else COUNTED:
                facets[name][given[name]] += count
        return {name: dict(count) for name, count in facets.items()}

    def size(self, app: str = "") -> int:
        """Return the number of tasks; app: as in `counts`."""
        return sum(count for values, count in self._counts.items() if app in ("", values[0]))

    def _blocks(self, sort: Sort, after: tuple[Value, str] | None) -> Iterator[list[TaskView]]:
        self.used.add(sort.by)
        order, key = self._order(sort.by), self._key(sort.by)
        if sort.descending:
            end = len(order) if after is None else bisect_left(order, after, key=key)
            for last in range(end, 0, -_BLOCK):
                yield order[max(0, last - _BLOCK) : last][::-1]
        else:
            start = 0 if after is None else bisect_right(order, after, key=key)
            for first in range(start, len(order), _BLOCK):
                yield order[first : first + _BLOCK]

    def _order(self, by: str) -> list[TaskView]:
        if by not in self._orders:
            tasks = self._tasks if by == "id" else self._order("id")  # sorting is stable
            self._orders[by] = sorted(tasks, key=self._value(by))
        return self._orders[by]

    def _key(self, by: str) -> Callable[[TaskView], tuple[Any, str]]:
        value = self._value(by)
        return lambda task: (value(task), task.id)

    def _value(self, by: str) -> Callable[[TaskView], Any]:
        if by == "eta":
            etas = self._etas
            return lambda task: etas.get(task.id, math.inf)
        return attrgetter({"created": "created_ms", "pending": "targets.pending"}.get(by, by))


def _moved(counts: Counter[tuple[str, ...]], odd: Iterable[tuple[TaskView, str]]) -> Counter[tuple[str, ...]]:
    """Move tasks to other states in counts of them by COUNTED. Return the counts."""
    for task, state in odd:
        counts[task.app, task.state, task.tier, task.channel] -= 1
        counts[task.app, state, task.tier, task.channel] += 1
    return +counts
