"""Targets that were given up, read back from the dead letters."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from dispatcher.ports import DeadLetter
from dispatcher.wire.outcome import OUTCOME_NAMES


@dataclass(frozen=True, slots=True)
class Failure:
    """A target that failed for good."""

    task: str
    """Id of the task."""
    target: str
    """Its address."""
    outcome: str
    """invalid or failed."""
    reason: str
    """Why, in the words of the channel."""
    attempt: int
    """The last one, from 1."""
    channel: str
    """The channel that gave it up."""
    at_ms: int
    """Wall time."""


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """The targets that failed with one reason."""

    outcome: str
    """invalid or failed."""
    reason: str
    """Why, in the words of the channel."""
    count: int
    """Targets."""
    example: str
    """One of them."""
    first_ms: int
    """Wall time of the first of them."""
    last_ms: int
    """Wall time of the last of them."""


def failures(letters: Iterable[DeadLetter]) -> Iterator[Failure]:
    """One for each target of the letters."""
    for letter in letters:
        columns = zip(letter.targets, letter.outcomes, letter.reasons, strict=True)
        for target, outcome, reason in columns:
            yield _failure(letter, target, outcome, reason)


def by_reason(letters: Iterable[DeadLetter]) -> list[FailureGroup]:
    """Return how many targets failed with each outcome and reason, the most frequent first."""
    groups: dict[tuple[int, str], FailureGroup] = {}
    for letter in letters:
        kinds = list(zip(letter.outcomes, letter.reasons, strict=False)) if letter.targets else []
        for kind, count in Counter(kinds).items():
            known = groups.get(kind)
            if known is None:
                example = letter.targets[kinds.index(kind)]
                known = FailureGroup(OUTCOME_NAMES[kind[0]], kind[1], 0, example, letter.at_ms, letter.at_ms)
            groups[kind] = replace(
                known,
                count=known.count + count,
                first_ms=min(known.first_ms, letter.at_ms),
                last_ms=max(known.last_ms, letter.at_ms),
            )
    return sorted(groups.values(), key=lambda group: -group.count)


def _failure(letter: DeadLetter, target: str, outcome: int, reason: str) -> Failure:
    name = OUTCOME_NAMES[outcome]
    return Failure(letter.task, target, name, reason, letter.attempt + 1, letter.channel, letter.at_ms)
