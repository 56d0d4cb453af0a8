"""Visits every state of a variant, each once, and says which laws were broken, with the steps that lead there."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from shlex import quote

from tests.exploration.envelopes import results
from tests.exploration.rules import left_out
from tests.exploration.steps import Steps
from tests.exploration.variants import Variant
from tests.exploration.world import World


@dataclass
class Found:
    """violations: by law, the shortest sequence of steps, and their places for `replay`. workers, views: states of the
    real parts. doubts: states that reacted in two ways, so that the digest does not tell enough. seconds: of CPU."""

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
    def __init__(self, variant: Variant) -> None:
        self._steps = Steps(variant)
        self._variant = variant
        self._places: dict[World, int] = {}
        self._parents: list[int] = []
        self._edges: list[list[int]] = []
        self._ends: list[int] = []
        self.found = Found(variant.name)

    def run(self, *, first_only: bool = False) -> Found:
        """first_only: stops at the first violation."""
        began = time.process_time()
        worlds = [self._steps.start()]
        self._places[worlds[0]] = 0
        self._parents.append(-1)
        at = 0
        while at < len(worlds) and not (first_only and self.found.violations):
            self._visit(worlds, at)
            at += 1
            if len(worlds) > self._variant.limit:
                self.found.complete = False
                break
        if self.found.complete and not (first_only and self.found.violations):
            self._look_for_dead_ends(worlds)
        found = self.found
        found.states, found.ends, found.seconds = len(worlds), len(self._ends), time.process_time() - began
        found.outages_felt = self._steps.outages_felt()
        found.doubts = [repr(doubt) for doubt in self._steps.scene.workers.doubts(self._variant.doubts)]
        found.workers, found.views = len(self._steps.scene.workers.states), len(self._steps.scene.ledger.states)
        return found

    def _visit(self, worlds: list[World], at: int) -> None:
        world, places, after = worlds[at], self._places, []
        for index, (_, fault, raw, wrong) in enumerate(self._steps.of(world)):
            self.found.steps += 1
            if wrong:
                self._note(wrong, worlds, at, index)
                continue
            new = self._steps.same(raw)
            place = places.get(new)
            if place is None:
                place = places[new] = len(worlds)
                worlds.append(new)
                self._parents.append(at)
            if not fault and place != at:
                after.append(place)
        self._edges.append(after)
        if self._steps.is_good_end(world):
            self._ends.append(at)

    def _note(self, wrong: str, worlds: list[World], at: int, *last: int) -> None:
        if wrong not in self.found.violations:
            places = [*self._path(worlds, at), *last]
            self.found.violations[wrong] = [step for step, _ in follow(self._steps, places)]
            self.found.replays[wrong] = " ".join(map(str, places))

    def _look_for_dead_ends(self, worlds: list[World]) -> None:
        """From every state a good end is reached without further faults."""
        before: list[list[int]] = [[] for _ in worlds]
        for at, after in enumerate(self._edges):
            for place in after:
                before[place].append(at)
        good = bytearray(len(worlds))
        line = list(self._ends)
        for at in line:
            good[at] = 1
        while line:
            for at in before[line.pop()]:
                if not good[at]:
                    good[at] = 1
                    line.append(at)
        bad = [at for at in range(len(worlds)) if not good[at]]
        if bad:
            stuck = next((at for at in bad if not self._edges[at]), bad[0])
            self._note("I4: no good end can be reached any more", worlds, stuck)

    def _path(self, worlds: list[World], at: int) -> list[int]:
        """Of each step on the shortest way to a state its place among all that were possible."""
        way = [at]
        while self._parents[way[-1]] >= 0:
            way.append(self._parents[way[-1]])
        way.reverse()
        return [self._place_of(worlds[before], worlds[after]) for before, after in pairwise(way)]

    def _place_of(self, before: World, after: World) -> int:
        steps = enumerate(self._steps.of(before))
        return next(index for index, step in steps if not step.wrong and self._steps.same(step.world) == after)


def explore(variant: Variant) -> Found:
    """All of a variant; of a broken one, until the first violation."""
    with left_out(variant.broken):
        return Search(variant).run(first_only=bool(variant.broken))


def replay(variant: Variant, places: Sequence[int]) -> Iterator[tuple[str, World]]:
    """One sequence of steps, each with the state it leads to."""
    with left_out(variant.broken):
        yield from follow(Steps(variant), places)


def follow(steps: Steps, places: Sequence[int]) -> Iterator[tuple[str, World]]:
    """Workers' names are exchanged along the way where this makes two states one, and are back in the text."""
    world, exchanged = steps.start(), False
    for index in places:
        step = next(islice(steps.of(world), index, None))
        yield _text(step.label, exchanged), step.world
        world = steps.same(step.world)
        exchanged ^= world.one != step.world.one


def _text(label: tuple[object, ...], exchanged: bool) -> str:
    subject, *others = label
    name = f"worker {subject ^ exchanged}" if isinstance(subject, int) else str(subject)
    return " ".join([name, *(str(results(part)) if isinstance(part, bytes) else str(part) for part in others)])
