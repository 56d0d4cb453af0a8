"""The state of dead letters, folded from the marks in the order of the topic."""

from collections.abc import Iterable
from enum import StrEnum
from itertools import chain

import msgspec

from dispatcher.letters.marks import LetterMark, MarkedLetter, MarkKind
from dispatcher.ports import DeadLetter
from dispatcher.wire.letters import MAX_POSITION, positions_of

_Envelope = tuple[str, str, int]
"""Task, writer and sequence."""


class LetterState(StrEnum):
    """The state of the target of a dead letter."""

    OPEN = "open"
    """Nothing yet."""
    REPLAYING = "replaying"
    """A new task is to send it; its submission is not known to be complete."""
    REPLAYED = "replayed"
    """A new task has it."""
    DROPPED = "dropped"
    """It was marked as not needed any more."""


class Claim(msgspec.Struct):
    """A mark as far as it was read."""

    id: str
    kind: MarkKind
    since_ms: int
    """Wall time of the oldest letter."""
    parts: dict[int, list[MarkedLetter]] = {}
    """The parts read so far; empty once the claim counts."""
    task: bytes = b""
    """The new task, as JSON."""
    targets: int = 0
    """Targets that it has: those that no earlier claim had."""
    counts: bool = False
    """Whether all its parts were read."""
    done: bool = False
    """Whether the audience of the new task is known to be complete."""

    @property
    def state(self) -> LetterState:
        if self.kind is MarkKind.DROP:
            return LetterState.DROPPED
        return LetterState.REPLAYED if self.done else LetterState.REPLAYING


class LetterBook:
    """Which claim has which target. Add the marks in the order of the topic."""

    def __init__(self, marks: Iterable[LetterMark] = ()) -> None:
        self.claims: dict[str, Claim] = {}
        self._claimed: dict[_Envelope, list[tuple[Claim, int]]] = {}
        """The claims of an envelope's targets, each with a bit for every target."""
        for mark in marks:
            self.add(mark)

    def add(self, mark: LetterMark) -> None:
        """Add a mark. A part that was read before changes nothing."""
        if mark.kind is MarkKind.REPLAYED:
            if mark.id in self.claims:
                self.claims[mark.id].done = True
            return
        claim = self.claims.setdefault(mark.id, Claim(mark.id, mark.kind, mark.since_ms))
        if claim.counts:
            return
        claim.task = claim.task or mark.task
        claim.parts[mark.part] = mark.letters
        if len(claim.parts) == mark.parts:
            self._begin(claim)

    def claims_of(self, letter: DeadLetter) -> list[Claim | None]:
        """Return the claim that has each target of a letter; None for an open one."""
        entries = self._claimed.get((letter.task, letter.writer, letter.sequence), ())
        return [next((claim for claim, bits in entries if bits & _bit(at)), None) for at in positions_of(letter)]

    def _begin(self, claim: Claim) -> None:
        """Let the claim count: it has what no earlier one has."""
        for letter in chain.from_iterable(claim.parts.values()):
            entries = self._claimed.setdefault((letter.task, letter.writer, letter.sequence), [])
            bits = 0
            for position in letter.positions:
                bits |= _bit(position)
            for _, earlier in entries:
                bits &= ~earlier
            if bits:
                entries.append((claim, bits))
                claim.targets += bits.bit_count()
        claim.counts, claim.parts = True, {}


class SeenTargets:
    """The targets of letters that were read: letters have copies."""

    def __init__(self) -> None:
        self._seen: dict[_Envelope, int] = {}
        self.count = 0

    def fresh(self, letter: DeadLetter) -> list[int]:
        """Return the indexes of the letter's targets that come for the first time, and note them."""
        envelope = (letter.task, letter.writer, letter.sequence)
        bits, indexes = self._seen.get(envelope, 0), list[int]()
        for index, position in enumerate(positions_of(letter)):
            if not bits & _bit(position):
                bits |= _bit(position)
                indexes.append(index)
        self._seen[envelope] = bits
        self.count += len(indexes)
        return indexes


def _bit(position: int) -> int:
    return 1 << (position if position >= 0 else MAX_POSITION - 1 - position)
