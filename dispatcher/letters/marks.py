"""Marks in the dead-letter topic: which letters were sent again as a new task, and which were dropped.

A mark names its letters and counts from its position on. The topic is in one order for all, so of two marks that name
a letter, the first has it. A mark with many letters is stored in parts, and counts once all of them are there: an
operator that dies half-way has marked nothing.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from hashlib import blake2b
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from dispatcher.model.errors import DECODING_ERRORS
from dispatcher.wire.groups import Time
from dispatcher.wire.letters import MAX_PARTS, MAX_POSITION

FORMAT = 1
MARK_KEY = "#marks"
"""Key of marks in the topic, which no task has: readers of letters pass them over."""
MAX_MARKED = 50_000
"""Maximum positions in a part, so that it stays far below the broker's limit."""
_LONGEST_TASK = 76
_DIGEST_BYTES = 8


class TargetKey(NamedTuple):
    """The identity of a target of a task."""

    writer: str
    sequence: int
    position: int


class MarkKind(StrEnum):
    """Kind of a mark. The values are on the wire."""

    REPLAY = "replay"
    """They are sent again as the task whose id is the mark's."""
    REPLAYED = "replayed"
    """The audience of that task is complete. The mark has no letters of its own."""
    DROP = "drop"
    """They are not needed any more."""


class MarkedLetter(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Targets of one envelope."""

    task: str
    writer: str
    sequence: int
    positions: list[Annotated[int, Meta(ge=-MAX_PARTS, lt=MAX_POSITION)]]
    """As dispatcher.wire.letters.positions_of numbers them."""


class LetterMark(msgspec.Struct, array_like=True, frozen=True, gc=False, kw_only=True):
    """One part of a mark."""

    format: int
    id: str
    kind: MarkKind
    at_ms: Time
    """Wall time when it was made."""
    since_ms: Time
    """Wall time of the oldest of its letters."""
    by: str
    """Who made it (dispatcher.access.principal.Caller)."""
    part: Annotated[int, Meta(ge=0)]
    parts: Annotated[int, Meta(ge=1)]
    letters: list[MarkedLetter]
    task: bytes = b""
    """In the first part of a replay: the new task, as JSON."""
    request: str = ""
    """Id of the HTTP request; empty if there was none."""


encode_mark = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(LetterMark).decode


def read_mark(body: bytes) -> LetterMark | None:
    """Decode a mark; None for one that must be skipped."""
    try:
        mark = _decode(body)
    except DECODING_ERRORS:
        return None
    return mark if mark.format == FORMAT and mark.part < mark.parts else None


def marked_letters(task: str, keys: Iterable[TargetKey]) -> list[MarkedLetter]:
    """Return the letters with these targets, in one order whatever the order of the keys."""
    letters: list[MarkedLetter] = []
    for writer, sequence, position in sorted(keys):
        if not letters or (letters[-1].writer, letters[-1].sequence) != (writer, sequence):
            letters.append(MarkedLetter(task, writer, sequence, []))
        letters[-1].positions.append(position)
    return letters


def digest_of(letters: Iterable[MarkedLetter]) -> str:
    """Return a name for this set of letters: two operators that mark the same letters make the same mark."""
    digest = blake2b(digest_size=_DIGEST_BYTES)
    for letter in letters:
        digest.update(encode_mark(letter))
    return digest.hexdigest()


def replay_id(task: str, letters: Iterable[MarkedLetter]) -> str:
    """Return the id of the task that sends these letters of a task again."""
    return f"{task[:_LONGEST_TASK]}.replay-{digest_of(letters)}"


def parts_of(mark: LetterMark) -> list[LetterMark]:
    """Split the mark into parts of a bounded size."""
    portions = list(_portions(mark.letters)) or [[]]
    return [
        msgspec.structs.replace(
            mark, part=number, parts=len(portions), letters=portion, task=b"" if number else mark.task
        )
        for number, portion in enumerate(portions)
    ]


def _portions(letters: Iterable[MarkedLetter]) -> Iterator[list[MarkedLetter]]:
    portion: list[MarkedLetter] = []
    marked = 0
    for letter in letters:
        if portion and marked + len(letter.positions) > MAX_MARKED:
            yield portion
            portion, marked = [], 0
        portion.append(letter)
        marked += len(letter.positions)
    if portion:
        yield portion
