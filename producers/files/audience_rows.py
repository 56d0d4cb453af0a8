"""Shared parts of the audience readers: the target's column, and the conversion of rows to targets."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast

from producers.submit.cutter import Slab
from producers.submit.validation import Unreadable

TARGET_COLUMNS = ("target", "token", "address")
"""Names of the column (CSV) or key (JSON) that holds the target; the first that is present is used."""

Items = tuple[list[object], Sequence[int]]
"""Targets, and the line of each."""
Parse = Callable[[Slab], Items]
Row = tuple[int, object]
"""The line a row begins on, and the row of CSV, value of JSON, or Unreadable."""
Keep = Mapping[str, Sequence[str]]
"""Column -> the accepted values of a row."""


def parser(make: Callable[..., object]) -> Parse:
    """Return a parser that makes targets of slabs of rows. make: returns None for an unwanted row."""
    return lambda slab: made(cast("list[Row]", slab.items), make)


def made(rows: Iterable[Row], make: Callable[..., object]) -> Items:
    """Return the targets of rows, and the line of each. make: as in `parser`."""
    items: list[object] = []
    lines: list[int] = []
    for line, row in rows:
        item = row if isinstance(row, Unreadable) else make(row) if row else None
        if item is not None:
            items.append(item)
            lines.append(line)
    return items, lines
