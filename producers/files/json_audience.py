"""Read an audience from JSON: one value a line, or an array of them."""

import io
import json
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from typing import Any, Final, NoReturn, cast

import ijson
import msgspec
from ijson.backends.yajl2_c import basic_parse_coro  # the backend in ijson's wheels; others differ in errors and speed

from dispatcher.model.errors import DECODING_ERRORS, InvalidInput
from dispatcher.model.task import Target
from producers.files.audience_rows import Beside, Items, Parse, Row, RowRules, made, parser
from producers.files.lines import LONG_LINE, MAX_LINE_BYTES, Lines
from producers.submit.cutter import Slab
from producers.submit.validation import Unreadable

_decode = msgspec.json.Decoder().decode


def jsonl_items(slab: Slab, rules: RowRules) -> Items:
    lines = map(str.strip, cast("list[str]", slab.items))
    return made(enumerate(lines, slab.first_line), lambda text: _jsonl_item(text, rules))


def _jsonl_item(text: str, rules: RowRules) -> object:
    """Return the target on a line that is not blank; None if it is not wanted."""
    try:
        value = _decode(text.encode())
    except DECODING_ERRORS as error:
        if text == LONG_LINE:
            return Unreadable(f"the line is longer than {MAX_LINE_BYTES:,} bytes")
        return Unreadable(f"the line is not JSON: {error}", text)
    return _item(value, rules, text)


def from_mapping(row: dict[str, Any], rules: RowRules, text: str) -> object:
    """Return the target that an object describes, or an Unreadable; None if the rules do not select it."""
    if rules.names:
        row = {rules.names.get(name, name): value for name, value in row.items()}
    if any(str(row.get(name)) not in values for name, values in rules.keep.items()):
        return None
    column = next((name for name in rules.targets if name in row), None)
    if column is None:
        return Unreadable(f"the object has no {' or '.join(rules.targets)}", text)
    variables = row.get("variables")
    if "variables" not in row:
        variables = {name: value for name, value in row.items() if rules.is_variable(name, column)}
    elif rules.variables is not None and isinstance(variables, dict):
        variables = {name: value for name, value in variables.items() if name in rules.variables}
    item = Target(row[column], variables or None)
    return Beside(item, tuple(map(row.get, rules.beside))) if rules.beside else item


def _item(value: object, rules: RowRules, text: str) -> object:
    if isinstance(value, dict):
        return from_mapping(value, rules, text)
    if isinstance(value, str):
        return None if rules.keep else Beside(value, (None,) * len(rules.beside)) if rules.beside else value
    return Unreadable("the value is neither a text nor an object", text)


# ----------------------------------------------------------------- an array

_MAX_VALUE: Final = 1 << 20
"""The maximum number of characters of one value in an array. A target with its variables has a few thousand."""
_PIECE: Final = 1 << 13
"""The number of characters that are parsed at a time; all values in them are in memory."""
_MAX_DEPTH: Final = 500
"""The maximum nesting of a value. A target's variables have at most 32 levels."""
_MARK: Final = "\ufdd0"
"""Replaces what the parser would refuse with the whole file, or change to a question mark. Unicode has no such
character."""
_mark: Final = re.compile(
    r"[\udc80-\udcff]"  # a byte that is not UTF-8
    r"|((?<!\\)(?:\\\\)*)(?<!\\u[dD][89abAB]..)\\u[dD](?:[89abAB]..(?!\\u[dD][c-fC-F])|[c-fC-F]..)"  # half a character
).sub
_unfinished: Final = re.compile(r"\\(?:u(?:\w{0,3}|[dD][89abAB]\w\w(?:\\(?:u\w{0,3})?)?))?\Z").search
"""An escape, or the pair of escapes of a character, that the next piece may complete."""
_reason: Final = re.compile(r"error: (.*?)\.?(?:\n|\\n|$)").search
_REASONS: Final = {
    "premature EOF": "the array is not closed",
    "after array element, I expect ',' or ']'": "there is no ',' or ']' after a value",
    "trailing garbage": "there is text after the end of the array",
}
"""The parser's reasons in the words of an array."""


def array_rows(source: Lines, rules: RowRules, path: str) -> tuple[Iterator[Iterator[Row]], Parse]:
    """Return the values of an array in bursts, and the parser that makes targets of them.

    Only a part of the array is in memory at a time. Raise InvalidInput at malformed JSON: the values behind it cannot
    be separated.
    """
    return _Array(source, path).bursts(), parser(lambda row: _array_item(row[0], rules))


def _array_item(value: object, rules: RowRules) -> object:
    item = _item(value, rules, "")
    return Unreadable(item.reason, json.dumps(value, ensure_ascii=False)) if isinstance(item, Unreadable) else item


class _Array:
    """Builds values of the events of a parser, which gets at most a line at a time: an event does not tell its line."""

    def __init__(self, source: Lines, path: str) -> None:
        self._source = source
        self._path = path
        self._parser = basic_parse_coro(self)
        self._open: list[list[Any]] = []
        """The parts of the array, and of the lists and objects in it that are not closed. The array's are not kept."""
        self._rows: list[Row] = []
        """The values on the line that is parsed."""
        self._line = self._begun = 1
        """The line that is parsed, and the line on which the last value that is a list or an object begins."""
        self._length = 0
        """The number of characters in the lines since the last value."""
        self._held = ""

    def bursts(self) -> Iterator[Iterator[Row]]:
        """Yield the values that are available at once, and wait for more after each burst."""
        while text := self._source.text():
            yield self._burst(text)
        self._parse(self._parser.close)

    def _burst(self, text: str) -> Iterator[Row]:
        while text:
            for line in iter(partial(io.StringIO(text).readline, _PIECE), ""):
                self._parse(self._parser.send, self._marked(line).encode())
                self._check_length(line)
                yield from self._rows
                self._rows.clear()
                self._line += line.endswith("\n")
            text = self._source.text() if self._source.text_present() else ""

    def _marked(self, piece: str) -> str:
        """Return what is parsed now, marked. An escape that is not complete comes with the next piece."""
        piece = self._held + piece
        unfinished = _unfinished(piece)
        end = len(piece) if unfinished is None else unfinished.start()
        piece, self._held = piece[:end], piece[end:]
        return piece if piece.isascii() and "\\u" not in piece else _mark(rf"\1{_MARK}", piece)

    def _parse(self, step: Callable[..., object], *data: bytes) -> None:
        try:
            step(*data)
        except UnicodeError:
            self._fail(r"a text has half a character, \udc00 to \udfff", self._line)
        except (ijson.JSONError, ValueError, ArithmeticError) as error:  # ValueError and the last: of numbers
            match = _reason(str(error))
            reason = match[1] if match else str(error)
            self._fail(_REASONS.get(reason, reason), self._line)

    def _check_length(self, line: str) -> None:
        self._length = 0 if self._rows else self._length + len(line.strip())
        if self._length > _MAX_VALUE:
            begun = self._begun if len(self._open) > 1 else self._line
            self._fail(f"no value of at most {_MAX_VALUE:,} characters begins here", begun)

    def send(self, event: tuple[str, Any]) -> None:
        """Take an event of the parser."""
        kind, value = event
        if kind in ("start_map", "start_array"):
            self._begin()
            return
        line = self._line
        if kind in ("end_map", "end_array"):
            line, value = self._begun, self._open.pop()
            if kind == "end_map":
                value = dict(zip(value[::2], value[1::2], strict=True))
        elif isinstance(value, str):
            value = value.replace(_MARK, "\udcff")
        elif isinstance(value, Decimal):
            value = float(value)
        if len(self._open) > 1:
            self._open[-1].append(value)
        elif self._open:
            self._rows.append((line, (value,)))

    def _begin(self) -> None:
        if len(self._open) == 1:
            self._begun = self._line
        self._open.append([])
        if len(self._open) > _MAX_DEPTH:
            self._fail("a value is nested too deeply", self._begun)

    def _fail(self, reason: str, line: int) -> NoReturn:
        raise InvalidInput(
            f"targets: {self._path} is not JSON from line {line:,} on: {reason}.",
            "Correct the file, or write one value a line (a .jsonl), of which only the wrong lines are refused.",
        )
