"""Read an audience from CSV: rows with the line each begins on, and their conversion to targets."""

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, cast

from dispatcher.channels.submission.address import BLANKS
from dispatcher.model.errors import InvalidInput
from dispatcher.model.task import MAX_VARIABLES_BYTES, Target
from dispatcher.model.values import counted
from producers.files.audience_rows import Parse, Row, RowRules, parser
from producers.files.lines import MAX_LINE_BYTES, Lines
from producers.submit.validation import Unreadable

END_IN_QUOTES: Final = "unexpected end of data"
"""The text of csv.Error for a quoted field in which the rows end."""
DELIMITERS: Final = ",;\t|"
_NAMED_DELIMITER: Final = re.compile(r'"?sep=([^"\r\n])"?[;,\t|]*\s*', re.IGNORECASE)
"""A first line by which Excel names the delimiter."""


@dataclass(frozen=True, slots=True)
class Header:
    """The columns of a CSV, and how its rows are separated into cells."""

    columns: Sequence[str]
    """By Fairlane's names; empty for a column without a name."""
    target: int | None
    """The index of the target's column; None if there is none."""
    delimiter: str
    named: bool = False
    """Whether the first line only names the delimiter."""

    def variables(self, rules: RowRules) -> list[tuple[int, str]]:
        """Return index and name of each column of variables."""
        target = self.columns[self.target or 0]
        return [(index, name) for index, name in enumerate(self.columns) if name and rules.is_variable(name, target)]

    def notes(self) -> Iterator[str]:
        """Yield unusual forms that were understood."""
        if self.named:
            yield f"the delimiter is {self.delimiter!r}, as its first line says"
        if nameless := self.columns.count(""):
            yield f"{counted(nameless, 'column')} without a name (trailing {self.delimiter!r}?) left out"


def header_of(source: Lines, rules: RowRules) -> Header:
    """Return the header of a CSV, without taking its line."""
    named = _NAMED_DELIMITER.fullmatch(source.beginning())
    line = source.beginning(2) if named else source.beginning()
    return _best_header(line, named[1] if named else rules.delimiter or DELIMITERS, rules, named=named is not None)


def is_csv(line: str) -> bool:
    """Return whether a text is the first line of a CSV: it names a target's column, or the delimiter."""
    return bool(_NAMED_DELIMITER.fullmatch(line)) or _best_header(line, DELIMITERS, RowRules()).target is not None


def dialect(delimiter: str) -> dict[str, Any]:
    """Return how rows are written, for csv.reader. It raises csv.Error for a row that breaks this."""
    return {"delimiter": delimiter, "strict": True, "skipinitialspace": True}


def csv_rows(source: Lines, rules: RowRules, path: str) -> tuple[Iterator[Iterable[Row]], Parse]:
    """Return the rows in bursts, and the parser that makes targets of them. Raises as `csv_table`."""
    header, bursts = csv_table(source, rules, path)
    return bursts, parser((lambda _row: None) if header is None else row_maker(header, rules, path))


def csv_table(source: Lines, rules: RowRules, path: str) -> tuple[Header | None, Iterator[Iterable[Row]]]:
    """Return the header, or None if there is none, and the rows in bursts.

    Raise InvalidInput if there is no target column.
    """
    known = header_of(source, rules)
    line = source.beginning(2 if known.named else 1)
    bursts = csv_bursts(source, dialect(known.delimiter), path)
    rows = chain.from_iterable(bursts)
    if known.named:
        next((row for row in rows if row[1]), None)
    first = next(rows, None)
    if first is None:
        return None, bursts
    if isinstance(first[1], Unreadable):
        cause = first[1].reason.removeprefix("the line ")
        raise InvalidInput(f"targets: the first line of {path} {cause}.", "Correct it, or remove it.")
    header = _header(cast("list[str]", first[1]), known.delimiter, rules, named=known.named)
    if header.target is None:
        raise _no_column(path, line if header.columns else "", rules)
    twice = next((name for name, count in Counter(header.columns).items() if name and count > 1), None)
    if twice is not None:
        raise InvalidInput(f"targets: {path} has two columns named {twice!r}.", "Give each column a name of its own.")
    return header, bursts


def _best_header(line: str, delimiters: str, rules: RowRules, *, named: bool = False) -> Header:
    """Return the header by the delimiter with which it has a target's column, or by the first one."""
    headers = [_header(_cells(line, dialect(delimiter)), delimiter, rules, named=named) for delimiter in delimiters]
    return next((header for header in headers if header.target is not None), headers[0])


def _header(cells: Sequence[str], delimiter: str, rules: RowRules, *, named: bool) -> Header:
    columns = [cell.strip(BLANKS) for cell in cells]
    columns = [rules.names.get(name, name) for name in columns]
    lower = [name.lower() for name in columns]
    target = next((lower.index(name.lower()) for name in rules.targets if name.lower() in lower), None)
    return Header(columns, target, delimiter, named)


def _cells(line: str, written: Mapping[str, Any]) -> list[str]:
    try:
        return next(csv.reader([line], **written), [])
    except csv.Error:
        return []


def _no_column(path: str, line: str, rules: RowRules) -> InvalidInput:
    cells = [cell.strip(BLANKS) for cell in max((_cells(line, dialect(each)) for each in DELIMITERS), key=len)]
    shown = ", ".join(repr(cell if len(cell) <= 40 else f"{cell[:37]}...") for cell in cells[:10])
    hint = "Name the column of the targets in the first line, or read it as one target a line"
    has = f"its first line has {shown}" if shown else "its first line is empty"
    return InvalidInput(
        f"targets: {path} has no column named {' or '.join(rules.targets)}: {has}.",
        f'{hint} (`--format lines`, format="lines").',
    )


def csv_bursts(source: Lines, written: Mapping[str, Any], path: str) -> Iterator[Iterator[Row]]:
    """Yield rows with the lines they begin on; an Unreadable for a line that breaks the format.

    A quoted field that is not closed swallows the rows behind it, so none of these can be trusted: reading ends there.
    """
    before = 0
    """The last line of the last whole row."""

    def lines() -> Iterator[list[str]]:
        row, size = 0, 0
        while taken := source.take():
            row, size = before, sum(map(len, taken)) + (size if row == before else 0)
            if size > 2 * MAX_LINE_BYTES:
                raise _not_closed(path, before + 1, reader.line_num)
            yield taken

    reader = csv.reader(chain.from_iterable(lines()), **written)

    def burst() -> Iterator[Row]:
        nonlocal before
        while source.taken > before or source.present():
            try:
                row: object = next(reader)
            except csv.Error as error:
                row = Unreadable(f"the line is not CSV: {error}")
            line, before = before + 1, reader.line_num
            if before > line:
                _check_span(row, line, before, path)
            yield line, row

    while source.taken > reader.line_num or source.first():
        yield burst()


def _check_span(row: object, first: int, last: int, path: str) -> None:
    """Raise InvalidInput if a row of several lines breaks the format, or is longer than variables may be."""
    too_long = isinstance(row, list) and any("\n" in cell and len(cell) > MAX_VARIABLES_BYTES for cell in row)
    if too_long or isinstance(row, Unreadable):
        raise _not_closed(path, first, last)


def _not_closed(path: str, first: int, last: int) -> InvalidInput:
    return InvalidInput(
        f"targets: in {path} a quoted field that begins on line {first:,} is not closed on it; it would take in "
        f"the rows up to line {last:,}.",
        'Close the quote, or write "" for a quote inside a quoted field.',
    )


def row_maker(header: Header, rules: RowRules, path: str) -> Callable[[list[str]], object]:
    """Return the function that makes a target of a row, an Unreadable of a wrong one, and None of one not wanted."""
    columns, target = header.columns, header.target or 0
    missing = [name for name in rules.keep if name not in columns]
    if missing:
        raise InvalidInput(f"filter: {path} has no column {', '.join(missing)}; it has {', '.join(columns)}.")
    kept_columns = [(columns.index(name), frozenset(values)) for name, values in rules.keep.items()]
    nameless = [index for index, name in enumerate(columns) if not name]
    others = header.variables(rules)
    width = len(columns)

    def make(row: list[str]) -> object:
        if len(row) != width:
            return Unreadable(f"the line has {len(row)} columns, not {width}", ",".join(row))
        row = list(map(str.strip, row))
        for column_index, values in kept_columns:
            if row[column_index] not in values:
                return None
        if nameless and any(row[column_index] for column_index in nameless):
            return Unreadable("the line has a value in a column without a name", ",".join(row))
        address = row[target].strip()
        return Target(address, {name: row[column_index] for column_index, name in others}) if others else address

    return make
