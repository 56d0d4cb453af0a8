"""Bound the size of dead letters: split large ones into parts, and shorten one that the broker refuses."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from dispatcher.model.task import MAX_TARGET_LENGTH
from dispatcher.ports import DeadLetter
from dispatcher.wire.outcome import OUTCOME_NAMES, sound_text

MAX_LETTER_BYTES = 1_000_000
"""Maximum size of an encoded letter: far below the broker's default limit of 5 MiB, and small enough to list."""
MAX_POSITION = 4_096
"""Limit of a target's position in a letter. An envelope has up to 500 targets."""
MAX_PARTS = 1_000
"""Maximum parts of a body. Messages have up to 5 MB."""
_ROW_BYTES = 24
"""Bytes of a target's position, outcome and string headers."""
_HEAD_BYTES = 4_000
"""Bytes of the other fields of a letter."""
_encode = msgspec.msgpack.Encoder().encode


def parts_of(letter: DeadLetter) -> list[DeadLetter]:
    """Split the letter into letters of at most MAX_LETTER_BYTES, with reasons of at most 1 kB.

    Targets stay with their positions, outcomes and reasons. A body is split too, and each part is numbered.
    """
    if len(letter.body) > MAX_LETTER_BYTES - _HEAD_BYTES:
        return list(_body_parts(letter))
    if not letter.targets:
        return [_with_short_reasons(letter)]
    return _row_parts(_with_short_reasons(letter))


def without_texts(letter: DeadLetter, reason: str) -> DeadLetter:
    """Return the letter without its targets and body, which the broker refused, and with the refusal as reason."""
    targets = [""] * len(letter.targets)
    return msgspec.structs.replace(
        letter, targets=targets, reasons=[reason] * max(1, len(targets)), body=b"", variables=None
    )


def with_rows(letter: DeadLetter, indexes: Sequence[int]) -> DeadLetter:
    """Return the letter with only the targets at these indexes."""
    return msgspec.structs.replace(
        letter,
        positions=[letter.positions[i] for i in indexes],
        targets=[letter.targets[i] for i in indexes],
        outcomes=[letter.outcomes[i] for i in indexes],
        reasons=[letter.reasons[i] for i in indexes],
        variables=None if letter.variables is None else [letter.variables[i] for i in indexes],
    )


def positions_of(letter: DeadLetter) -> list[int]:
    """Return the position of each target in its envelope.

    A letter without targets (an envelope of an unknown task) counts as position -1, and the further parts of a split
    one as -2, -3 and so on.
    """
    return letter.positions or [-1 - letter.part]


def is_sound(letter: DeadLetter) -> bool:
    """Return whether the columns of the letter have the same length, and its outcomes and positions exist."""
    columns = {len(letter.positions), len(letter.targets), len(letter.outcomes)}
    reasons = len(letter.reasons) == len(letter.targets) or not letter.targets
    variables = letter.variables is None or len(letter.variables) == len(letter.targets)
    codes = all(0 <= code < len(OUTCOME_NAMES) for code in letter.outcomes)
    positions = all(0 <= position < MAX_POSITION for position in letter.positions) and 0 <= letter.part < MAX_PARTS
    return len(columns) == 1 and reasons and variables and codes and positions


def _size(variables: Mapping[str, Any] | None) -> int:
    return len(_encode(variables)) if variables else 1


def _with_short_reasons(letter: DeadLetter) -> DeadLetter:
    short = {reason: sound_text(reason) for reason in set(letter.reasons)}
    if all(reason == text for reason, text in short.items()):
        return letter
    return msgspec.structs.replace(letter, reasons=[short[reason] for reason in letter.reasons])


def _body_parts(letter: DeadLetter) -> Iterator[DeadLetter]:
    size = MAX_LETTER_BYTES - _HEAD_BYTES
    starts = range(0, len(letter.body), size)
    for part, start in enumerate(starts):
        yield msgspec.structs.replace(
            _with_short_reasons(letter), body=letter.body[start : start + size], part=part, parts=len(starts)
        )


def _row_parts(letter: DeadLetter) -> list[DeadLetter]:
    texts = sum(map(len, letter.targets)) + sum(map(len, letter.reasons))
    variables = [_size(variable) for variable in letter.variables] if letter.variables else [0] * len(letter.targets)
    if sum(variables) + 4 * texts + _ROW_BYTES * len(letter.targets) <= MAX_LETTER_BYTES - _HEAD_BYTES:
        return [letter]
    targets = [target[:MAX_TARGET_LENGTH] for target in letter.targets]
    letter = msgspec.structs.replace(letter, targets=targets)
    sizes = [
        _ROW_BYTES + len(target.encode()) + len(reason.encode()) + size
        for target, reason, size in zip(targets, letter.reasons, variables, strict=True)
    ]
    return [with_rows(letter, range(*part)) for part in _filled(sizes, MAX_LETTER_BYTES - _HEAD_BYTES)]


def _filled(sizes: list[int], room: int) -> Iterator[tuple[int, int]]:
    """Yield first and end of runs of consecutive rows that fit together, at least one each."""
    start = filled = 0
    for index, size in enumerate(sizes):
        if filled + size > room and index > start:
            yield start, index
            start, filled = index, 0
        filled += size
    yield start, len(sizes)
