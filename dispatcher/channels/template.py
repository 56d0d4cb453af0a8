"""Messages with variables: `{{name}}` or `{{name|default}}` in any text of a message.

A message is compiled once. Filling in a target's variables then joins pieces of finished JSON.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

TARGET = "\1"
"""Placeholder of the target in a document."""
_MARK = "\0"
"""Encloses the number of a slot while the message is encoded. JSON writes it as six characters that no text has."""
_SLOT = re.compile(rb"\\u0000(\d+)\\u0000")
_VARIABLE = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*(?:\|([^{}]*))?\}\}")
_encode = msgspec.json.Encoder().encode


class Slot(NamedTuple):
    """A place in a document where a variable goes."""

    name: str
    """Empty: the target goes here."""
    default: bytes | None
    """As JSON without quotes; None: the variable is required."""


class MissingVariable(Exception):
    """A target lacks a variable that has no default."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the target has no variable {name!r}, and the message names no default for it")
        self.name = name


class Template:
    """A JSON document with slots."""

    __slots__ = ("_pieces", "fixed_bytes", "required", "slots")

    def __init__(self, value: object) -> None:
        """Compile a JSON value. Raises ValueError for a text with `{{` that is not a variable."""
        slots: list[Slot] = []
        encoded = _encode(_with_marks(value, slots))
        pieces = _SLOT.split(encoded)
        self.slots: tuple[Slot, ...] = tuple(slots[int(number)] for number in pieces[1::2])
        self._pieces: list[bytes] = pieces
        self.fixed_bytes = sum(map(len, pieces[::2]))
        """Size of the document without its variables and its target."""
        self.required = frozenset(slot.name for slot in self.slots if slot.name and slot.default is None)
        """Names of the variables without a default."""

    def fill(self, target: str, variables: Mapping[str, Any] | None) -> bytes:
        """Return the document for one target. Raises MissingVariable."""
        if not self.slots:
            return self._pieces[0]
        values = variables or {}
        pieces = self._pieces.copy()
        for index, (name, default) in enumerate(self.slots):
            value = values.get(name) if name else target
            if value is not None:
                pieces[2 * index + 1] = _encode(value if type(value) is str else shown(value))[1:-1]
            elif default is not None:
                pieces[2 * index + 1] = default
            else:
                raise MissingVariable(name)
        return b"".join(pieces)

    def size(self, variables: Mapping[str, Any] | None) -> int:
        """Return the document's size without its target. A variable that is missing has no bytes."""
        size, values = self.fixed_bytes, variables or {}
        for name, default in self.slots:
            if name:
                value = values.get(name)
                size += len(default or b"") if value is None else len(_encode(shown(value))) - 2
        return size


def shown(value: object) -> str:
    """Return a variable's value as it appears in a text: `true`, `3`, `1.5`, JSON for lists and objects."""
    return value if isinstance(value, str) else _encode(value).decode()


def _with_marks(value: object, slots: list[Slot]) -> object:
    """Replace each variable by a mark with the number of its slot."""
    if isinstance(value, str):
        return _marked(value, slots)
    if isinstance(value, Mapping):
        return {_marked(key, slots): _with_marks(item, slots) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_with_marks(item, slots) for item in value]
    return value


def _marked(text: str, slots: list[Slot]) -> str:
    if text == TARGET:
        slots.append(Slot("", None))
        return f"{_MARK}{len(slots) - 1}{_MARK}"
    if _MARK in text:
        raise ValueError("a text contains the character U+0000")

    def slot(match: re.Match[str]) -> str:
        default = match[2]
        slots.append(Slot(match[1], None if default is None else _encode(default)[1:-1]))
        return f"{_MARK}{len(slots) - 1}{_MARK}"

    marked = _VARIABLE.sub(slot, text)
    if "{{" in marked:
        raise ValueError(f"{text[:40]!r} has '{{{{' that is not a variable: write {{{{name}}}} or {{{{name|default}}}}")
    return marked
