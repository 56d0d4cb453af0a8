"""Failed targets, read back from the dead letters."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from dispatcher.ports import DeadLetter
from dispatcher.wire.outcome import OUTCOME_NAMES


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A target that failed permanently."""

    task: str
    """The task's id."""
    target: str
    """The target's address."""
    outcome: str
    """invalid or failed."""
    reason: str
    """The reason, in the words of the channel."""
    attempt: int
    """The number of the last attempt, from 1."""
    channel: str
    """The channel that reported the failure."""
    at_ms: int
    """Wall time of the failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureGroup:
    """The targets that failed for the same reason."""

    outcome: str
    """invalid or failed."""
    reason: str
    """The reason, in the words of the channel."""
    count: int
    """The number of targets."""
    example: str
    """The address of one of these targets."""
    first_ms: int
    """Wall time of the first failure."""
    last_ms: int
    """Wall time of the last failure."""


def failures(letters: Iterable[DeadLetter]) -> Iterator[Failure]:
    """Yield a Failure for each target in the letters."""
    for letter in letters:
        columns = zip(letter.targets, letter.outcomes, letter.reasons, strict=True)
        for target, outcome, reason in columns:
            yield _failure(letter, target, outcome, reason)


def by_reason(letters: Iterable[DeadLetter]) -> list[FailureGroup]:
    """Return the number of failed targets by outcome and reason, the most frequent first."""
    groups: dict[tuple[int, str], FailureGroup] = {}
    for letter in letters:
        kinds = list(zip(letter.outcomes, letter.reasons, strict=False)) if letter.targets else []
        for kind, count in Counter(kinds).items():
            known = groups.get(kind)
            if known is None:
                example = letter.targets[kinds.index(kind)]
                known = FailureGroup(
                    outcome=OUTCOME_NAMES[kind[0]],
                    reason=kind[1],
                    count=0,
                    example=example,
                    first_ms=letter.at_ms,
                    last_ms=letter.at_ms,
                )
            groups[kind] = replace(
                known,
                count=known.count + count,
                first_ms=min(known.first_ms, letter.at_ms),
                last_ms=max(known.last_ms, letter.at_ms),
            )
    return sorted(groups.values(), key=lambda group: -group.count)


def _failure(letter: DeadLetter, target: str, outcome: int, reason: str) -> Failure:
    name = OUTCOME_NAMES[outcome]
    return Failure(
        task=letter.task,
        target=target,
        outcome=name,
        reason=reason,
        attempt=letter.attempt + 1,
        channel=letter.channel,
        at_ms=letter.at_ms,
    )
