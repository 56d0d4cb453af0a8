"""Shared parts of the audience readers: the target's column, and the conversion of rows to targets."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from producers.submit.cutter import Slab
from producers.submit.validation import Unreadable

TARGET_COLUMNS = ("target", "token", "address")
"""Names of the column (CSV) or key (JSON) that holds the target; the first that is present is used."""

Items = tuple[list[object], Sequence[int]]
"""Targets, and the line of each."""
Parse = Callable[[Slab], Items]
Row = tuple[int, object]
"""The line a row begins on, and the row of CSV, value of JSON, or Unreadable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRules:
    """The rules by which the columns (CSV) or keys (JSON) of a row become a target."""

    keep: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The accepted values of a row, by column. These columns only select."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Fairlane's name by column."""
    targets: Sequence[str] = TARGET_COLUMNS
    """The names of the target's column; the first that is present is used."""
    variables: Sequence[str] | None = None
    """The columns of variables; None for all others."""
    beside: Sequence[str] = ()
    """The keys whose values come beside a target of JSON."""
    delimiter: str | None = None
    """That of CSV. None: the one with which the header has a target's column."""

    def is_variable(self, name: str, target: str) -> bool:
        """Return whether the column is a variable. target: the name of the target's column."""
        if self.variables is not None:
            return name in self.variables
        return name != target and name not in self.keep and name not in self.beside


@dataclass(frozen=True, slots=True)
class Beside:
    """A target with the values of the columns `beside`; None where the row has none."""

    target: object
    values: tuple[Any, ...]


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
