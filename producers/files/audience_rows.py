"""What the readers of audiences share: the column of the target, and how rows become targets."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast

from producers.submit.cutter import Slab
from producers.submit.validation import Unreadable

TARGET_COLUMNS = ("target", "token", "address")
"""The column (CSV) or key (JSON) that holds the target; the first of them that is there."""

Items = tuple[list[object], Sequence[int]]
"""Targets, and the line of each."""
Parse = Callable[[Slab], Items]
Row = tuple[int, object]
"""A row of CSV or a value of JSON, or an Unreadable, with the line it begins on."""
Keep = Mapping[str, Sequence[str]]
"""Columns, and the values of which a row must have one."""


def parser(make: Callable[..., object]) -> Parse:
    """Make targets of slabs of rows. make: returns None for a row that is not wanted."""
    return lambda slab: _made(cast("list[Row]", slab.items), make)


def _made(rows: Iterable[Row], make: Callable[..., object]) -> Items:
    items: list[object] = []
    lines: list[int] = []
    for line, row in rows:
        item = row if isinstance(row, Unreadable) else make(row) if row else None
        if item is not None:
            items.append(item)
            lines.append(line)
    return items, lines
