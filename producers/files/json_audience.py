"""Read an audience from JSON: one value a line, or an array of them."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NoReturn, cast

import msgspec

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
_SPACE: Final = re.compile(r"[ \t\n\r]*").match


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


_value_at = json.JSONDecoder(parse_constant=_no_constant).raw_decode


def array_rows(source: Lines, rules: RowRules, path: str) -> tuple[Iterator[Iterator[Row]], Parse]:
    """Return the values of an array in bursts, and the parser that makes targets of them.

    Only a part of the array is in memory at a time. Raise InvalidInput at malformed JSON: the values behind it cannot
    be separated.
    """
    return _Array(source, path).bursts(), parser(lambda item: _item(item[0], rules, item[1]))


class _Array:
    def __init__(self, source: Lines, path: str) -> None:
        self._source = source
        self._path = path
        self._text = ""
        self._at = 0
        """Position in the text up to which values were taken."""
        self._line = 1
        """The line of that position."""
        self._begun = self._any = self._closed = False
        """Whether the opening bracket, any value, and the closing bracket were taken."""

    def bursts(self) -> Iterator[Iterator[Row]]:
        """Yield the values that are available at once, and wait for more after each burst."""
        while not self._closed:
            if not self._more():
                self._fail_at_end()
            yield self._burst()
        self._check_rest()

    def _burst(self) -> Iterator[Row]:
        while not self._closed:
            value = self._next()
            if value is not None:
                yield value
            elif not (self._source.text_present() and self._more()):
                return

    def _more(self) -> bool:
        """Wait for more text; False at the end."""
        text = self._source.text()
        self._text, self._at = self._text[self._at :] + text, 0
        return bool(text)

    def _next(self) -> Row | None:
        """Return the next value that is followed by its comma or bracket; None if more text is needed."""
        start = self._skip(self._at)
        if not self._begun:
            self._begun, start = True, self._skip(start + 1)
        if not self._any and self._text[start : start + 1] == "]":
            self._close(start)
            return None
        self._move(start)
        try:
            value, end = _value_at(self._text, start)
        except (ValueError, RecursionError) as error:
            self._check_incomplete(error)
            return None
        stop = self._skip(end)
        if stop == len(self._text):
            return None
        if self._text[stop] not in ",]":
            self._fail("there is no ',' or ']' after a value", stop)
        self._any, row = True, (self._line, (value, self._text[start:end]))
        if self._text[stop] == "]":
            self._close(stop)
        else:
            self._move(stop + 1)
        return row

    def _skip(self, at: int) -> int:
        match = _SPACE(self._text, at)
        assert match is not None
        return match.end()

    def _move(self, at: int) -> None:
        self._line += self._text.count("\n", self._at, at)
        self._at = at

    def _close(self, at: int) -> None:
        self._closed = True
        self._move(at + 1)

    def _check_incomplete(self, error: Exception) -> None:
        """Raise InvalidInput if the text cannot become a value, whatever follows it."""
        if isinstance(error, RecursionError):
            self._fail("a value is nested too deeply", self._at)
        if len(self._text) - self._at > _MAX_VALUE:
            reason = f"no value of at most {_MAX_VALUE:,} characters begins here"
            self._fail(f"{reason} ({_reason(error)})", self._at)

    def _fail_at_end(self) -> NoReturn:
        if self._text[self._at :].strip():
            try:
                _value_at(self._text, self._at)
            except ValueError as error:
                self._fail(_reason(error), getattr(error, "pos", self._at))
        self._fail("the array is not closed", len(self._text))

    def _check_rest(self) -> None:
        while self._skip(self._at) == len(self._text):
            self._move(len(self._text))
            if not self._more():
                return
        self._fail("there is text after the end of the array", self._skip(self._at))

    def _fail(self, reason: str, at: int) -> NoReturn:
        line = self._line + self._text.count("\n", self._at, at)
        raise InvalidInput(
            f"targets: {self._path} is not JSON from line {line:,} on: {reason}.",
            "Correct the file, or write one value a line (a .jsonl), of which only the wrong lines are refused.",
        )


def _reason(error: Exception) -> str:
    return str(getattr(error, "msg", error))
