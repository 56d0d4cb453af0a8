"""Read an audience from CSV: rows with the line each begins on, and their conversion to targets."""

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, cast

from dispatcher.model.errors import InvalidInput
from dispatcher.model.task import MAX_VARIABLES_BYTES, Target
from producers.files.audience_rows import TARGET_COLUMNS, Keep, Parse, Row, parser
from producers.files.lines import Lines
from producers.submit.validation import Unreadable

DELIMITERS: Final = ",;\t|"
_COLUMNS: Final = " or ".join(TARGET_COLUMNS)


def delimiter_of(line: str) -> str | None:
    """Return the delimiter that gives the header a target column; None if none of them does."""
    return next((each for each in DELIMITERS if _target_column(_cells(line, each)) is not None), None)


def variable_columns(line: str, keep: Keep) -> list[str] | None:
    """Return the columns that become variables, from a header; None if it has no target column."""
    header = _cells(line, delimiter_of(line) or ",")
    column = _target_column(header)
    if column is None:
        return None
    return [name for index, name in enumerate(header) if index != column and name not in keep]


def csv_rows(source: Lines, keep: Keep, path: str) -> tuple[Iterator[Iterable[Row]], Parse]:
    """Return the rows in bursts, and the parser that makes targets of them.

    Raise InvalidInput if there is no target column.
    """
    line = source.beginning()
    bursts = _bursts(source, delimiter_of(line) or ",", path)
    first = next(chain.from_iterable(bursts), None)
    if first is None:
        return iter(()), parser(lambda _row: None)
    if isinstance(first[1], Unreadable):
        cause = first[1].reason.removeprefix("the line ")
        raise InvalidInput(f"targets: the first line of {path} {cause}.", "Correct it, or remove it.")
    header = [cell.strip() for cell in cast("list[str]", first[1])]
    column = _target_column(header)
    if column is None:
        raise _no_column(path, line if header else "")
    twice = next((name for index, name in enumerate(header) if name in header[:index]), None)
    if twice is not None:
        raise InvalidInput(f"targets: {path} has two columns named {twice!r}.", "Give each column a name of its own.")
    return bursts, parser(_row_maker(header, column, keep, path))


def _cells(line: str, delimiter: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter), [])]
    except csv.Error:
        return []


def _no_column(path: str, line: str) -> InvalidInput:
    cells = max((_cells(line, delimiter) for delimiter in DELIMITERS), key=len)
    shown = ", ".join(repr(cell if len(cell) <= 40 else f"{cell[:37]}...") for cell in cells[:10])
    hint = "Name the column of the targets in the first line, or read it as one target a line"
    has = f"its first line has {shown}" if shown else "its first line is empty"
    return InvalidInput(
        f"targets: {path} has no column named {_COLUMNS}: {has}.", f'{hint} (`--format lines`, format="lines").'
    )


def _bursts(source: Lines, delimiter: str, path: str) -> Iterator[Iterator[Row]]:
    """Yield rows with the lines they begin on; an Unreadable for a line that breaks the format.

    A quoted field that is not closed swallows the rows behind it, so none of these can be trusted: reading ends there.
    """
    reader = csv.reader(source, delimiter=delimiter, strict=True)

    def burst() -> Iterator[Row]:
        before = reader.line_num
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
        raise InvalidInput(
            f"targets: in {path} a quoted field that begins on line {first:,} is not closed on it; it would take in "
            f"the rows up to line {last:,}.",
            'Close the quote, or write "" for a quote inside a quoted field.',
        )


def _target_column(header: Sequence[str]) -> int | None:
    names = [name.lower() for name in header]
    return next((names.index(name) for name in TARGET_COLUMNS if name in names), None)


def _row_maker(header: list[str], column: int, keep: Keep, path: str) -> Callable[[list[str]], object]:
    missing = [name for name in keep if name not in header]
    if missing:
        raise InvalidInput(f"filter: {path} has no column {', '.join(missing)}; it has {', '.join(header)}.")
    kept_columns = [(header.index(name), frozenset(values)) for name, values in keep.items()]
    others = [
        (column_index, name) for column_index, name in enumerate(header) if column_index != column and name not in keep
    ]
    width = len(header)

    def make(row: list[str]) -> object:
        if len(row) != width:
            return Unreadable(f"the line has {len(row)} columns, not {width}", ",".join(row))
        for column_index, values in kept_columns:
            if row[column_index] not in values:
                return None
        address = row[column].strip()
        return Target(address, {name: row[column_index] for column_index, name in others}) if others else address

    return make
