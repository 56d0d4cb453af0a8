"""Visits every state of a variant, each once, and says which laws were broken, with the steps that lead there."""

import gc
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from shlex import quote
from typing import Any

from tests.exploration.envelopes import results
from tests.exploration.footprint import Menus, Numbers, Table
from tests.exploration.likeness import Likeness
from tests.exploration.rules import left_out
from tests.exploration.scene import Machines
from tests.exploration.steps import Steps
from tests.exploration.variants import Variant
from tests.exploration.world import World

EXCHANGED = "x"


@dataclass
class Found:
    """violations: by law, the shortest sequence of steps, and their places for `replay`. workers, views: states of the
    real parts known by now. outcomes: of all targets, at good ends. doubts: states that reacted in two ways, so that
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
    """reduced: otherwise every order is tried, even where no step can see it, and no world stands for another."""

    def __init__(self, variant: Variant, machines: Machines | None = None, *, reduced: bool = True) -> None:
        self.steps = Steps(variant, machines, reduced=reduced)
        self._variant = variant
        self.table = Table()
        self.menus = Menus(self.table, self.steps.alone, self.steps.others)
        self._likeness = Likeness(self.table, self.steps)
        self.worlds: list[Numbers] = []
        self._places: dict[Numbers, int] = {}
        self._parents: list[int] = []
        self._edges: list[tuple[int, ...]] = []
        self._ends: list[int] = []
        self.found = Found(variant.name)

    def run(self, *, first_only: bool = False) -> Found:
        """first_only: stops at the first violation."""
        began = time.process_time()
        gc.disable()  # it would go through millions of worlds again and again, and none of them is garbage
        found, worlds = self.found, self.worlds
        self._place(self._likeness.of([*self.table.numbers(self.steps.start())]), -1)
        at = 0
        while at < len(worlds) and not (first_only and found.violations):
            self._visit(at)
            at += 1
            if len(worlds) > self._variant.limit:
                found.complete = False
                break
        if found.complete and not (first_only and found.violations):
            self._look_for_dead_ends()
        found.states, found.ends, found.seconds = len(worlds), len(self._ends), time.process_time() - began
        found.outages_felt = self.steps.outages_felt()
        found.doubts = [repr(doubt) for doubt in self.steps.scene.workers.doubts(self._variant.doubts)]
        found.workers, found.views = len(self.steps.scene.workers.states), len(self.steps.scene.ledger.states)
        return found

    def _place(self, numbers: Numbers, parent: int) -> int:
        place = self._places[numbers] = len(self.worlds)
        self.worlds.append(numbers)
        self._parents.append(parent)
        return place

    def _visit(self, at: int) -> None:
        numbers, places, after = self.worlds[at], self._places, []
        changes = self.menus.of(numbers)
        self.found.steps += len(changes)
        for fault, to, wrong in changes:
            if wrong:
                self._note(wrong, at)
                continue
            if not to:
                continue
            changed = [*numbers]
            for part, number in to:
                changed[part] = number
            new = self._likeness.of(changed)
            place = places.get(new)
            if place is None:
                place = self._place(new, at)
            if not fault and place != at:
                after.append(place)
        self._edges.append(tuple(after))
        if self._likeness.is_end(numbers):
            self._look_at_end(at)

    def _look_at_end(self, at: int) -> None:
        world = self.table.world(self.worlds[at])
        if self.steps.is_good_end(world):
            self._ends.append(at)
            self.found.outcomes.add(tuple(sorted(self.steps.truth.of(world.done).items())))

    def _note(self, wrong: str, at: int) -> None:
        if wrong in self.found.violations:
            return
        way = [*self._path(at)]
        if not wrong.startswith("I4"):
            world = self.table.world(self.worlds[at])
            way.append(next(str(place) for place, step in enumerate(self.steps.of(world)) if step.wrong == wrong))
        self.found.violations[wrong] = [step for step, _ in follow(self.steps, way)]
        self.found.replays[wrong] = " ".join(way)

    def _look_for_dead_ends(self) -> None:
        """From every state a good end is reached without further faults. Most steps lead on to states found later, so
        looking backwards a few times is enough."""
        good = bytearray(len(self.worlds))
        for at in self._ends:
            good[at] = 1
        line, count = [at for at in range(len(good) - 1, -1, -1) if not good[at]], -1
        while line and len(line) != count:
            count, open_ = len(line), []
            for at in line:
                for place in self._edges[at]:
                    if good[place]:
                        good[at] = 1
                        break
                else:
                    open_.append(at)
            line = open_
        if line:
            stuck = next((at for at in reversed(line) if not self._edges[at]), line[-1])
            self._note("I4: no good end can be reached any more", stuck)

    def _path(self, at: int) -> Iterator[str]:
        """Of each step on the shortest way to a state, its place among all that were possible, and EXCHANGED where the
        workers' names are exchanged after it."""
        way = [at]
        while self._parents[way[-1]] >= 0:
            way.append(self._parents[way[-1]])
        for before, after in pairwise(reversed(way)):
            yield self._place_of(self.table.world(self.worlds[before]), self.worlds[after])

    def _place_of(self, before: World, after: Numbers) -> str:
        for place, step in enumerate(self.steps.of(before)):
            plain = self.table.numbers(settled(self.steps, step.world))
            if not step.wrong and self._likeness.of([*plain]) == after:
                return f"{place}{'' if plain == after else EXCHANGED}"
        raise AssertionError("a step in numbers that is none")


def explore(variant: Variant, machines: Machines | None = None) -> Found:
    """All of a variant; of a broken one, until the first violation."""
    with left_out(variant.broken):
        return Search(variant, machines).run(first_only=bool(variant.broken))


def explore_all(variants: Sequence[Variant]) -> dict[str, Found]:
    """One after the other, by name. They share the machines, so none but the only one may be broken."""
    machines, found = Machines(), {}
    for variant in variants:
        found[variant.name] = explore(variant, machines)
        gc.collect()
    return found


def replay(variant: Variant, places: Sequence[str]) -> Iterator[tuple[str, World]]:
    """One sequence of steps, each with the state it leads to."""
    with left_out(variant.broken):
        yield from follow(Steps(variant), places)


def follow(steps: Steps, places: Sequence[str]) -> Iterator[tuple[str, World]]:
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


def settled(steps: Steps, world: World) -> World:
    """What stands for it, but for the workers' names."""
    world = steps.plain(world)
    for step in steps.all_settling(world):
        world = step.world
    return steps.plain(world)


def _text(label: tuple[object, ...], exchanged: bool) -> str:
    subject, *others = label
    name = f"worker {subject ^ exchanged}" if isinstance(subject, int) else str(subject)
    return " ".join([name, *(str(results(part)) if isinstance(part, bytes) else str(part) for part in others)])
