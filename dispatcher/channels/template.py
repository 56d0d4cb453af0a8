"""Messages with variables: `{{name}}` or `{{name|default}}` in any text of a message.

A message is compiled once, into pieces of finished JSON with slots between them. Filling in a target's variables then
joins pieces. No text marks a slot, so no text can be taken for one.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final, NamedTuple

import msgspec

from dispatcher.channels.value_texts import text_of

TARGET: Final = object()
"""Placeholder of the target in a document."""


class WholeNumber(msgspec.Struct, frozen=True):
    """A number of a document that each target may have for itself."""

    text: str
    """One variable, such as `{{unread}}` or `{{unread|0}}`, or digits."""
    field: str
    """Its name in the document."""


_VARIABLE = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*(?:\|([^{}]*))?\}\}")
_WHOLE = re.compile(r"\s*0*([0-9]{1,15})(?:\.0+)?\s*", re.ASCII)
_encode = msgspec.json.Encoder().encode


class MissingVariable(Exception):
    """A target lacks a variable that has no default."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the target has no variable {name!r}, and the message names no default for it")
        self.name = name


class Slot(NamedTuple):
    """A place in a document where a variable goes."""

    name: str
    """Empty: the target goes here."""
    default: bytes | None
    """As JSON without quotes; None: the variable is required."""
    is_number: bool = False
    """Whether only a whole number may go here."""

    def piece(self, value: object) -> bytes:
        """Return a value as a part of the document, or the default. An empty text is no number.

        Raises MissingVariable, TypeError for a value without a form as text, and ValueError for one that is no number
        where one must be.
        """
        text = text_of(value)
        if text is None or (self.is_number and not text):
            if self.default is None:
                raise MissingVariable(self.name)
            return self.default
        if not self.is_number:
            return _encode(text)[1:-1]
        digits = whole_number(text)
        if digits is None or isinstance(value, bool):
            raise ValueError(f"the variable {self.name} must be a whole number from 0")
        return digits.encode()


class Template:
    """A JSON document with slots."""

    __slots__ = ("_pieces", "_places", "fixed_bytes", "numbers", "required", "slots")

    def __init__(self, value: object) -> None:
        """Compile a JSON value. Raises ValueError for a text with `{{` that is not a variable."""
        self._pieces: list[bytes] = [b""]
        slots: list[Slot] = []
        for part in _parts(value):
            if isinstance(part, Slot):
                slots.append(part)
                self._pieces += (b"", b"")
            else:
                self._pieces[-1] += part
        self.slots: tuple[Slot, ...] = tuple(slots)
        self._places = tuple((2 * index + 1, slot.name, slot) for index, slot in enumerate(slots))
        self.fixed_bytes = sum(map(len, self._pieces))
        """Size of the document without its variables and its target."""
        self.required = frozenset(slot.name for slot in self.slots if slot.name and slot.default is None)
        """Names of the variables without a default."""
        self.numbers = tuple(slot for slot in self.slots if slot.is_number)
        """The slots that only a whole number may fill."""

    def fill(self, target: str, variables: Mapping[str, Any] | None) -> bytes:
        """Return the document for one target. Raises MissingVariable, and TypeError or ValueError for a value that
        cannot be written there."""
        if not self._places:
            return self._pieces[0]
        values = variables or {}
        pieces = self._pieces.copy()
        for index, name, slot in self._places:
            value = values.get(name) if name else target
            pieces[index] = slot.piece(value) if slot.is_number or type(value) is not str else _encode(value)[1:-1]
        return b"".join(pieces)

    def size(self, variables: Mapping[str, Any] | None) -> int:
        """Return the document's size without its target. A variable that is missing has no bytes."""
        size, values = self.fixed_bytes, variables or {}
        for slot in self.slots:
            value = values.get(slot.name)
            if slot.name:
                size += len(slot.default or b"") if value is None else len(slot.piece(value))
        return size


def whole_number(text: str) -> str | None:
    """Return the digits of a whole number from 0; None for any other text."""
    match = _WHOLE.fullmatch(text)
    return None if match is None else match[1]


def _parts(value: object) -> Iterator[bytes | Slot]:
    """Yield the finished parts of a JSON value and its slots, in order."""
    if isinstance(value, str):
        yield from _text_parts(value)
    elif isinstance(value, Mapping):
        members = (chain(_text_parts(key), (b":",), _parts(item)) for key, item in value.items())
        yield from _joined(b"{", members, b"}")
    elif isinstance(value, (list, tuple)):
        yield from _joined(b"[", map(_parts, value), b"]")
    elif isinstance(value, WholeNumber):
        yield _number_part(value.text, value.field)
    elif value is TARGET:
        yield from (b'"', Slot("", None), b'"')
    else:
        yield _encode(value)


def _joined(begin: bytes, members: Iterable[Iterable[bytes | Slot]], end: bytes) -> Iterator[bytes | Slot]:
    yield begin
    for number, member in enumerate(members):
        yield b"," if number else b""
        yield from member
    yield end


def _text_parts(text: str) -> Iterator[bytes | Slot]:
    yield b'"'
    end = 0
    for match in _VARIABLE.finditer(text):
        yield _fixed(text, text[end : match.start()])
        yield Slot(match[1], None if match[2] is None else _encode(match[2])[1:-1])
        end = match.end()
    yield _fixed(text, text[end:])
    yield b'"'


def _fixed(text: str, part: str) -> bytes:
    if "{{" in part:
        raise ValueError(f"{text[:40]!r} has '{{{{' that is not a variable: write {{{{name}}}} or {{{{name|default}}}}")
    return _encode(part)[1:-1]


def _number_part(text: str, field: str) -> bytes | Slot:
    match = _VARIABLE.fullmatch(text.strip())
    digits = whole_number(text if match is None else match[2] or "")
    if match is not None and (match[2] is None or digits is not None):
        return Slot(match[1], None if digits is None else digits.encode(), is_number=True)
    if digits is None:
        raise ValueError(f"{field} is no whole number ({text[:40]!r}): write a number, {{{{name}}}} or {{{{name|0}}}}")
    return digits.encode()
