"""The outcome topic, read independently of the fold, and what must agree with it."""

from typing import Any

from dispatcher.wire.outcome import Outcome
from tests.exploration.envelopes import SIZE, results
from tests.exploration.machines import Machines
from tests.exploration.world import CLOSE, OUTCOME, TRUTH, WorldState

Target = tuple[int, int]
"""Envelope and position."""
FINAL = frozenset(map(int, Outcome))


class Truth:
    def __init__(self, machines: Machines) -> None:
        self._machines = machines
        self._known: dict[tuple[Any, ...], dict[Target, int]] = {}

    def of(self, log: tuple[Any, ...]) -> dict[Target, int]:
        """Return for each target its first final outcome in topic order."""
        known = self._known.get(log)
        if known is None:
            known = self._known[log] = {}
            for entry in log:
                for target, code in self._outcomes_of(entry):
                    known.setdefault(target, code)
        return known

    def _outcomes_of(self, entry: tuple[Any, ...]) -> list[tuple[Target, int]]:
        if entry[0] == TRUTH:
            return list(entry[1])
        if entry[0] == CLOSE:
            sequences = [self._machines.sequence(kind) for kind in self._machines.variant.sent]
            return [((number, position), int(Outcome.CANCELLED)) for number in sequences for position in range(SIZE)]
        found = results(self._machines.bodies[entry[1]]) if entry[0] == OUTCOME else []
        return [
            ((self._machines.sequence(kind), position), code)
            for kind, codes in found
            for position, code in zip(kind[3], codes, strict=True)
            if code in FINAL
        ]

    def summed(self, log: tuple[Any, ...]) -> tuple[Any, ...]:
        """The same, and less to tell apart."""
        return ((TRUTH, tuple(sorted(self.of(log).items()))),) if log else ()

    def wrong_counts(self, world: WorldState) -> str:
        """The law that is broken, if one is, now that the fold has read a record."""
        view, truth = self._machines.ledger.states[world.view], self.of(world.done)
        codes = list(truth.values())
        wanted = [codes.count(code) for code in Outcome]
        if view.ready and not view.ended and not _agree(list(view.counts), wanted, world):
            return f"I1: the view counts {view.counts}, the outcome topic says {wanted}"
        for (sequence, position), code in truth.items():
            accepted = world.accepted >> (SIZE * sequence + position) & 1
            excused = self._machines.called_targets(world.excused, sequence)
            if code == Outcome.CANCELLED and accepted and not excused:
                return "I7: recorded cancelled though the provider had accepted it"
        return ""


def _agree(counts: list[int], wanted: list[int], world: WorldState) -> bool:
    """Compare counts with the truth. A rebuilt view may read a closing before the number of targets: it then counts
    too few as cancelled, until the task, not complete by this count, is closed once more."""
    if world.epoch:
        counts[Outcome.CANCELLED] = max(counts[Outcome.CANCELLED], wanted[Outcome.CANCELLED])
    return counts == wanted
