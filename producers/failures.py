"""Failed targets of a task: those given up, from the dead letters, and the invalid ones, from the outcome records."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from dispatcher.ports import DeadLetter
from dispatcher.wire.invalid import Reported, TargetKey
from dispatcher.wire.letters import keys_of
from dispatcher.wire.outcome import OUTCOME_NAMES, Outcome

_INVALID = int(Outcome.INVALID)


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


def failures(
    letters: Iterable[DeadLetter], reported: Iterable[Reported], task: str, invalid: int | None = None
) -> Iterator[Failure]:
    """Yield a Failure for each target in the task's letters, and for each of its invalid ones that were reported.

    invalid: the number of its invalid targets; the reports are read no further once there are as many (None: unknown).
    """
    seen: set[TargetKey] = set()
    for letter in letters:
        columns = zip(letter.targets, letter.outcomes, letter.reasons, strict=True)
        seen.update(key for key, code in zip(keys_of(letter), letter.outcomes, strict=False) if code == _INVALID)
        yield from (_failure(letter, *row) for row in columns)
    if invalid is not None and len(seen) >= invalid:
        return
    for key, attempt, one in reported:
        if one.task == task and key not in seen:
            seen.add(key)
            yield Failure(
                task=task,
                target=one.target,
                outcome=OUTCOME_NAMES[_INVALID],
                reason=one.reason,
                attempt=attempt + 1,
                channel=one.channel,
                at_ms=one.seen_ms,
            )
            if len(seen) == invalid:
                return


def by_reason(failed: Iterable[Failure]) -> list[FailureGroup]:
    """Return the number of failed targets by outcome and reason, the most frequent first."""
    groups: dict[tuple[str, str], FailureGroup] = {}
    for one in failed:
        kind = (one.outcome, one.reason)
        group = groups.get(kind) or FailureGroup(
            outcome=one.outcome,
            reason=one.reason,
            count=0,
            example=one.target,
            first_ms=one.at_ms,
            last_ms=one.at_ms,
        )
        first_ms, last_ms = min(group.first_ms, one.at_ms), max(group.last_ms, one.at_ms)
        groups[kind] = replace(group, count=group.count + 1, first_ms=first_ms, last_ms=last_ms)
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
