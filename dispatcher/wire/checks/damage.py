"""Read what is left of a damaged envelope, so that its targets end with an outcome.

Another program may have published variables that no reader can take. The fields before them tell whose targets they
are.
"""

from contextlib import suppress

from dispatcher.model.errors import Malformed
from dispatcher.wire.checks.nesting import MAX_VALUES, complaint_after_decoding
from dispatcher.wire.envelope import Envelope, damaged, decode_envelope

_MESSAGE = Envelope.__struct_fields__.index("message")
_VARIABLES = Envelope.__struct_fields__.index("variables")
MAX_LOST = 1_200_000
"""Bytes beyond which the reason is not looked for: 500 targets with 2 KiB of variables each have fewer."""
_NIL, _NO_MESSAGE = b"\xc0", b"\x80"
_FIXED = {0xC0: 0, 0xC2: 0, 0xC3: 0, 0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4}
_FIXED |= {0xD3: 8, 0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17}
"""msgpack: the bytes after the first one of a value."""
_SIZED = {0xC4: (1, 0), 0xC5: (2, 0), 0xC6: (4, 0), 0xC7: (1, 1), 0xC8: (2, 1), 0xC9: (4, 1)}
_SIZED |= {0xD9: (1, 0), 0xDA: (2, 0), 0xDB: (4, 0)}
"""The bytes of its size, and those beyond that size."""
_COUNTED = {0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2)}
"""The bytes of the number of its elements, and the values of each."""


def salvaged(body: bytes) -> Envelope | None:
    """Return a damaged envelope without its variables; None if it cannot be known whose it is, or if its variables can
    be read and no version accepts them.

    Encoded again, it is damaged for every reader. Its damage says what cannot be read.
    """
    try:
        fields, first = _array_header(body)
        message_at = _end(body, first, _MESSAGE)
        targets_at = _end(body, message_at, 1)
        variables_at = _end(body, targets_at, _VARIABLES - _MESSAGE - 1)
    except (IndexError, KeyError):
        return None
    end, kept = _end_of_variables(body, variables_at, fields)
    before, message, targets = body[first:message_at], body[message_at:targets_at], body[targets_at:variables_at]
    for readable in (message, _NO_MESSAGE):
        try:
            envelope = decode_envelope(b"\xdc" + kept.to_bytes(2) + before + readable + targets + _NIL + body[end:])
        except Malformed:
            continue
        field, lost = ("variables", body[variables_at:end]) if readable is message else ("message", message)
        why = "they are too large" if len(lost) > MAX_LOST else complaint_after_decoding(lost)
        why = why or ("fields are missing" if kept < fields else "")
        return damaged(envelope, f"its {field} cannot be read: {why}", lost) if why else None
    return None


def _end_of_variables(body: bytes, start: int, fields: int) -> tuple[int, int]:
    """Return where the variables end, and the number of fields that are kept: those behind them are lost if it is not
    known where the variables end."""
    with suppress(IndexError, KeyError):
        end = _end(body, start, 1)
        if _end(body, end, fields - _VARIABLES - 1) == len(body):
            return end, fields
    return len(body), _VARIABLES + 1


def _array_header(body: bytes) -> tuple[int, int]:
    """Return the number of elements of the array, and where they begin."""
    if body[0] == 0xDC:
        return int.from_bytes(body[1:3]), 3
    if body[0] >> 4 == 9:
        return body[0] & 15, 1
    raise KeyError(body[0])


def _end(body: bytes, at: int, values: int) -> int:
    """Return where the msgpack values end that begin at `at`, however deep they are. Raises IndexError, KeyError."""
    for _ in range(MAX_VALUES):
        if not values:
            break
        values -= 1
        tag = body[at]
        at += 1
        if tag < 0x80 or tag >= 0xE0:
            continue
        if tag < 0xA0:
            values += (tag & 15) << (tag < 0x90)
        elif tag < 0xC0:
            at += tag & 31
        elif tag in _COUNTED:
            width, each = _COUNTED[tag]
            values += int.from_bytes(body[at : at + width]) * each
            at += width
        elif tag in _SIZED:
            width, more = _SIZED[tag]
            at += width + int.from_bytes(body[at : at + width]) + more
        else:
            at += _FIXED[tag]
    if values or at > len(body):
        raise IndexError(at)
    return at
