"""Visits every state of a variant, each once, and says which laws were broken, with the steps that lead there."""

import gc
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice, pairwise
from shlex import quote
from typing import Any

import numpy as np

from tests.exploration.envelopes import results
from tests.exploration.footprint import NAMES, PARTS, Table
from tests.exploration.likeness import Likeness
from tests.exploration.menus import FAULT, SAME, WRONG, Menus
from tests.exploration.rows import Columns, Growing, Hashes, Known, Rows
from tests.exploration.rules import left_out
from tests.exploration.steps import Steps
from tests.exploration.variants import Variant
from tests.exploration.world import WorldState

EXCHANGED = "x"
NO_PARENT = -1
AT_ONCE = 1 << 16
"""States visited together."""


@dataclass(kw_only=True)
class Found:
    """violations: by law, the shortest sequence of steps, and their places for `replay`. workers, views: states of the
    real parts. outcomes: of all targets, at good ends. doubts: states that reacted in two ways, so that
    the digest does not tell enough. seconds: of CPU."""

    variant: str
    states: int = 0
    steps: int = 0
    ends: int = 0
    workers: int = 0
    views: int = 0
    seconds: float = 0.0
    doubts: list[str] = field(default_factory=list)
    outages_felt: list[str] = field(default_factory=list)
    complete: bool = True
    outcomes: set[tuple[Any, ...]] = field(default_factory=set)
    violations: dict[str, list[str]] = field(default_factory=dict)
    replays: dict[str, str] = field(default_factory=dict)

    def summary(self) -> str:
        parts = f"{self.workers} of a worker, {self.views} of the ledger"
        cut = "" if self.complete else " (cut short)"
        return f"{self.variant}: {self.states} states ({parts}), {self.steps} steps, {self.seconds:.1f} s{cut}"

    def report(self) -> str:
        lines = [self.summary(), *self.doubts, *self.outages_felt]
        for wrong, steps in self.violations.items():
            lines += [wrong, *(f"  {number:2}. {step}" for number, step in enumerate(steps, 1))]
            lines.append(f"  again: python -m tests.exploration {quote(self.variant)} {self.replays[wrong]}")
        return "\n".join(lines)


class Search:
    """reduced: otherwise every order is tried, even where no step can see it, and no world represents another."""

    def __init__(self, variant: Variant, *, reduced: bool = True) -> None:
        self.steps = Steps(variant, reduced=reduced)
        self._variant = variant
        self.table = Table()
        self._hashes = Hashes(len(NAMES))
        self.menus = Menus(self.table, self._hashes, self.steps.alone, self.steps.others)
        self._likeness = Likeness(self.table, self._hashes, self.steps)
        self._worlds, self._parents = Growing(len(PARTS)), Growing(1)
        self._places = Known()
        self._edges: list[tuple[Columns, Columns]] = []
        self._ends: list[int] = []
        self.found = Found(variant=variant.name)

    def run(self, *, first_only: bool = False) -> Found:
        """first_only: stops at the first violation."""
        began, found = time.process_time(), self.found
        with _never_collecting():
            self._visit_all(first_only)
            if found.complete and not (first_only and found.violations):
                self._look_for_dead_ends()
        found.states, found.ends, found.seconds = len(self._worlds), len(self._ends), time.process_time() - began
        found.outages_felt = self.steps.outages_felt()
        found.doubts = [repr(doubt) for doubt in self.steps.machines.workers.doubts(self._variant.doubts)]
        found.doubts += self.steps.machines.ledger.doubts
        found.workers, found.views = len(self.steps.machines.workers.states), len(self.steps.machines.ledger.states)
        return found

    def _visit_all(self, first_only: bool) -> None:
        """Those that are as many steps away come together, so that the first way to each is a shortest one."""
        found, worlds = self.found, self._worlds
        start = np.array([self.table.numbers(self.steps.start())], np.int32).T
        self.place(self._likeness.of(start), np.array([NO_PARENT]))
        at = as_far = 0
        while at < len(worlds) and found.complete:
            as_far = as_far if at < as_far else len(worlds)
            until = min(as_far, at + AT_ONCE)
            self._visit(np.arange(at, until), first_only)
            if first_only and found.violations:
                return
            at, found.complete = until, len(worlds) <= self._variant.limit

    @property
    def worlds(self) -> Rows:
        """All that were visited."""
        return self._worlds.rows

    def each(self) -> Iterator[WorldState]:
        """All that were visited, by place."""
        return (self.table.world(dict(enumerate(numbers))) for numbers in self.worlds.T.tolist())

    def _world(self, at: int) -> WorldState:
        return self.table.world(dict(enumerate(self._worlds.rows[:, at].tolist())))

    def _visit(self, at: Columns, first_only: bool) -> None:
        worlds = self._worlds.rows[:, at]
        of, steps = self.menus.of(worlds)
        self.found.steps += len(of)
        broken = np.flatnonzero(steps[WRONG])
        for place, law in sorted({*zip(at[of[broken]].tolist(), steps[WRONG, broken].tolist(), strict=True)}):
            self._note(self.menus.laws[law], place)
            if first_only:
                return
        changes = steps[: len(PARTS)]
        on = np.flatnonzero((steps[WRONG] == 0) & (changes != SAME).any(axis=0))
        of, changes = of[on], changes[:, on]
        after = self._likeness.of(np.where(changes == SAME, worlds[:, of], changes))
        before, places = at[of], self.place(after, at[of])
        way = (steps[FAULT][on] == 0) & (before != places)
        self._edges.append((before[way], places[way]))
        for end in at[self._likeness.ends(worlds)]:
            self._look_at_end(int(end))

    def place(self, worlds: Rows, parents: Columns) -> Columns:
        """Where each of them is, now that those that are new have a place. parents: the places of worlds from which a
        step leads to them, or NO_PARENT."""
        hashes = self._hashes.of(worlds, PARTS)
        places, is_new = self._places.of(hashes)
        _, first = np.unique(hashes[is_new], return_index=True)
        new = np.flatnonzero(is_new)[np.sort(first)]
        self._places.give(hashes[new], np.arange(len(self._worlds), len(self._worlds) + len(new)))
        self._worlds.add(worlds[:, new])
        self._parents.add(parents[None, new])
        return np.where(is_new, self._places.of(hashes)[0], places)

    def _look_at_end(self, at: int) -> None:
        world = self._world(at)
        if self.steps.is_good_end(world):
            self._ends.append(at)
            self.found.outcomes.add(tuple(sorted(self.steps.truth.of(world.done).items())))

    def _note(self, wrong: str, at: int) -> None:
        if wrong in self.found.violations:
            return
        way = [*self._path(at)]
        if not wrong.startswith("I4"):
            steps = enumerate(self.steps.of(self._world(at)))
            way.append(next(str(place) for place, step in steps if step.wrong == wrong))
        self.found.violations[wrong] = [step for step, _ in follow(self.steps, way)]
        self.found.replays[wrong] = " ".join(way)

    def _look_for_dead_ends(self) -> None:
        """From every state a good end is reached without further faults. Most steps lead on to states found later, so
        looking backwards a few times is enough."""
        good: Any = np.zeros(len(self._worlds), np.bool_)
        good[self._ends] = True
        count, more = 0, len(self._ends)
        while more > count:
            for before, after in reversed(self._edges):
                good[before[good[after]]] = True
            count, more = more, int(good.sum())
        ends_here = ~good
        for before, _ in self._edges:
            ends_here[before] = False
        stuck = [*np.flatnonzero(ends_here)[:1], *np.flatnonzero(~good)[:1]]
        if stuck:
            self._note("I4: no good end can be reached any more", int(stuck[0]))

    def _path(self, at: int) -> Iterator[str]:
        """Yield for each step on the shortest way to a state its place among all possible ones, and EXCHANGED where the
        workers' names are exchanged after it."""
        (parents,) = self._parents.rows
        way = [at]
        while parents[way[-1]] != NO_PARENT:
            way.append(int(parents[way[-1]]))
        for before, after in pairwise(reversed(way)):
            yield self._place_of(self._world(before), self._worlds.rows[:, after])

    def _place_of(self, before: WorldState, after: Any) -> str:
        for place, step in enumerate(self.steps.of(before)):
            if step.wrong:
                continue
            plain = np.array([self.table.numbers(settled(self.steps, step.world))], np.int32).T
            like = self._likeness.of(plain.copy())
            if (like[:, 0] == after).all():
                return f"{place}{'' if (plain == like).all() else EXCHANGED}"
        raise AssertionError("a step in numbers that is none")


@contextmanager
def _never_collecting() -> Iterator[None]:
    """Collections would go through all that is remembered again and again, and none of it is garbage."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def explore(variant: Variant) -> Found:
    """All of a variant; of a broken one, until the first violation."""
    with left_out(variant.broken):
        return Search(variant).run(first_only=bool(variant.broken))


def replay(variant: Variant, places: Sequence[str]) -> Iterator[tuple[str, WorldState]]:
    """One sequence of steps, each with the state it leads to."""
    with left_out(variant.broken):
        yield from follow(Steps(variant), places)


def follow(steps: Steps, places: Sequence[str]) -> Iterator[tuple[str, WorldState]]:
    """Workers' names are exchanged along the way where this makes two states one, and are back in the text."""
    world, exchanged = steps.start(), False
    for place in places:
        step = next(islice(steps.of(world), int(place.rstrip(EXCHANGED)), None))
        yield _text(step.label, exchanged), step.world
        for quiet in steps.all_settling(steps.plain(step.world)):
            yield _text(quiet.label, exchanged), quiet.world
        world = settled(steps, step.world)
        if place.endswith(EXCHANGED):
            world, exchanged = steps.exchanged(world), not exchanged


def settled(steps: Steps, world: WorldState) -> WorldState:
    """Return the world that represents this one, except for the workers' names."""
    if not steps.reduced:
        return world
    world = steps.plain(world)
    for step in steps.all_settling(world):
        world = step.world
    return steps.plain(world)


def _text(label: tuple[object, ...], exchanged: bool) -> str:
    subject, *others = label
    name = f"worker {subject ^ exchanged}" if isinstance(subject, int) else str(subject)
    return " ".join([name, *(str(results(part)) if isinstance(part, bytes) else str(part) for part in others)])
