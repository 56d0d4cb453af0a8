"""Visits every state of a variant, each once, and says which laws were broken, with the steps that lead there."""

import time
from dataclasses import dataclass, field
from itertools import pairwise

from tests.exploration.envelopes import results
from tests.exploration.variants import Variant
from tests.exploration.world import Steps, World


@dataclass
class Found:
    """violations: by law, the shortest sequence of steps. workers, views: states of the real parts.
    doubts: states that reacted in two ways, so that the digest does not tell enough. seconds: of CPU."""

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

    def summary(self) -> str:
        parts = f"{self.workers} of a worker, {self.views} of the ledger"
        cut = "" if self.complete else " (cut short)"
        return f"{self.variant}: {self.states} states ({parts}), {self.steps} steps, {self.seconds:.1f} s{cut}"

    def report(self) -> str:
        lines = [self.summary(), *self.doubts, *self.outages_felt]
        for wrong, steps in self.violations.items():
            lines += [wrong, *(f"  {number:2}. {step}" for number, step in enumerate(steps, 1))]
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
        found.outages_felt = [repr(state) for state in self._steps.outages_felt()]
        found.doubts = [repr(doubt) for doubt in self._steps.workers.doubts(self._variant.doubts)]
        found.workers, found.views = len(self._steps.workers.states), len(self._steps.ledger.states)
        return found

    def _visit(self, worlds: list[World], at: int) -> None:
        world, places, after = worlds[at], self._places, []
        for label, fault, raw, wrong in self._steps.of(world):
            new = self._steps.same(raw)
            self.found.steps += 1
            if wrong and wrong not in self.found.violations:
                self.found.violations[wrong] = [*self._trace(worlds, at), _text(label)]
            if wrong:
                continue
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
        bad = next((at for at in range(len(worlds)) if not good[at]), None)
        if bad is not None:
            last = next((at for at in range(len(worlds)) if not good[at] and not self._edges[at]), bad)
            wrong = "I4: no good end can be reached any more"
            self.found.violations[wrong] = [*self._trace(worlds, last), repr(worlds[last])]

    def _trace(self, worlds: list[World], at: int) -> list[str]:
        path = [at]
        while self._parents[path[-1]] >= 0:
            path.append(self._parents[path[-1]])
        steps, exchanged = [], False
        path.reverse()
        for before, after in pairwise(path):
            found = (step for step in self._steps.of(worlds[before]) if self._steps.same(step.world) == worlds[after])
            step = next(found)
            steps.append(_text(step.label, exchanged))
            exchanged ^= step.world != worlds[after]
        return steps


def explore(variant: Variant) -> Found:
    """All of a variant; of a broken one, until the first violation."""
    return Search(variant).run(first_only=bool(variant.broken))


def _text(label: tuple[object, ...], exchanged: bool = False) -> str:
    """The workers' names are exchanged along the way, and are back in the text."""
    first, *others = label
    subject = f"worker {first ^ exchanged}" if isinstance(first, int) else str(first)
    return " ".join([subject, *(str(results(part)) if isinstance(part, bytes) else str(part) for part in others)])
