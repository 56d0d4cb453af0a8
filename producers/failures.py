"""Targets that were given up, read back from the dead letters."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dispatcher.outcome import OUTCOME_NAMES
from dispatcher.ports import DeadLetter


@dataclass(frozen=True, slots=True)
class Failure:
    """A target that failed for good. outcome: invalid or failed. attempt: the last, from 1. at_ms: wall time."""

    task: str
    target: str
    outcome: str
    reason: str
    attempt: int
    channel: str
    at_ms: int


def failures(letters: Iterable[DeadLetter]) -> Iterator[Failure]:
    """One for each target of the letters."""
    for letter in letters:
        columns = zip(letter.targets, letter.outcomes, letter.reasons, strict=True)
        for target, outcome, reason in columns:
            yield _failure(letter, target, outcome, reason)


def _failure(letter: DeadLetter, target: str, outcome: int, reason: str) -> Failure:
    name = OUTCOME_NAMES[outcome]
    return Failure(letter.task, target, name, reason, letter.attempt + 1, letter.channel, letter.at_ms)
