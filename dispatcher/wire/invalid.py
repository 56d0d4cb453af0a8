"""The targets that providers called invalid, as outcome records name them."""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from dispatcher.wire.outcome import Named, Outcome, Outcomes

_INVALID = int(Outcome.INVALID)


class InvalidTarget(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A target that a provider called invalid: an app should forget it, unless it was registered again since."""

    app: str
    """The app whose task had it."""
    channel: str
    """The channel that reported it."""
    target: str
    """The target's address."""
    reason: str
    """The reason, in the words of the channel."""
    died_ms: int
    """Wall time from which on the provider knew that the target is gone. Where it does not say so, `seen_ms`."""
    seen_ms: int
    """Wall time of the outcome record."""
    task: str
    """The task's id."""


class TargetKey(NamedTuple):
    """The identity of a target of a task."""

    writer: str
    sequence: int
    position: int


class Reported(NamedTuple):
    """An invalid target, as one record reports it."""

    key: TargetKey
    attempt: int
    target: InvalidTarget


def invalid_in(record: Outcomes) -> Iterator[Reported]:
    """Yield the invalid targets that the record names."""
    for named in record.named:
        positions = range(len(named.targets)) if named.positions is None else named.positions
        is_invalid = _invalid_positions(record, named)
        for index, position in enumerate(positions[: len(named.targets)]):
            if is_invalid is None or position in is_invalid:
                key = TargetKey(named.writer, named.sequence, position)
                yield Reported(key, named.attempt, _target(record, named, index))


def _invalid_positions(record: Outcomes, named: Named) -> frozenset[int] | None:
    """Return the positions of the envelope that are invalid; None for all."""
    for mixed in record.mixed:
        if mixed.sequence == named.sequence and mixed.writer == named.writer and mixed.attempt == named.attempt:
            positions = range(len(mixed.codes)) if mixed.positions is None else mixed.positions
            return frozenset(p for p, code in zip(positions, mixed.codes, strict=False) if code == _INVALID)
    for run in record.runs:
        if run.first <= named.sequence < run.first + run.count and run.writer == named.writer:
            return None if run.code == _INVALID else frozenset()
    return frozenset()


def _target(record: Outcomes, named: Named, index: int) -> InvalidTarget:
    died_ms, reasons = named.died_ms or (), named.reasons or ()
    return InvalidTarget(
        app=record.app,
        channel=record.channel,
        target=named.targets[index],
        reason=reasons[index] if index < len(reasons) else "",
        died_ms=(died_ms[index] if index < len(died_ms) else 0) or record.at_ms,
        seen_ms=record.at_ms,
        task=record.task,
    )
