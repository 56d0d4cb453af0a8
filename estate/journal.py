"""The journal of a run of moves: one line of JSON for each event, in the order in which they happened."""

from enum import StrEnum

import msgspec

from dispatcher.model.errors import DECODING_ERRORS, InvalidInput

FORMAT = 1


class MoveEvent(StrEnum):
    """Events of a move."""

    PLAN = "plan"
    SUBMIT = "submit"
    """It is begun now; written before the broker is asked."""
    FOUND = "found"
    """A lookup shows its bundle at the target."""
    MISS = "miss"
    """The bundle is not at the target; the move is tried again."""
    GIVE_UP = "give_up"
    SKIP = "skip"
    """The run was stopped before this move was begun."""


class JournalEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the journal."""

    event: MoveEvent
    bundle: str
    """tenant/namespace/range."""
    source: str
    """Broker that owned the bundle when the move was planned."""
    target: str
    owner: str = ""
    """Owner at the lookup; empty if unknown."""
    reason: str = ""
    """Why a try did not succeed."""


class _Line(msgspec.Struct, frozen=True, array_like=True):
    """A line as it is stored."""

    format: int
    at_ms: int
    entry: JournalEntry


def journal_line(entry: JournalEntry, at_ms: int) -> bytes:
    """Return the line of an entry, with its end."""
    return msgspec.json.encode(_Line(FORMAT, at_ms, entry)) + b"\n"


def parse_journal(content: bytes) -> list[JournalEntry]:
    """Parse the lines of a journal. A last line without its end was cut off by a death, and is left out.

    Raises InvalidInput for anything else that is no journal, or one of a later version.
    """
    entries = []
    for number, text in enumerate(content.split(b"\n")[:-1], 1):
        try:
            line = msgspec.json.decode(text, type=_Line)
        except DECODING_ERRORS as error:
            raise InvalidInput(f"journal of moves: line {number} is none: {error}.") from error
        if line.format != FORMAT:
            raise InvalidInput(
                f"journal of moves: line {number} has format {line.format}; this version reads {FORMAT}."
            )
        entries.append(line.entry)
    return entries
