"""The common form of all tables: nothing is cut, and a note names the columns that did not fit."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dispatcher.model.values import NOTHING
from fairlane.screen.fields import MOMENTS, Kind, form_of, header_of, kind_of, zone_note
from fairlane.screen.fit import ColumnWidth, Layout, fit

LONG_WORD = 32
"""Longer words, such as addresses, are broken where there is no room for them."""
COMFORT = 16
"""Minimum width of wrapped texts."""
BAR_MIN, BAR_FULL = 8, 24

Style = Callable[[str], str]


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str
    """The field in the rows."""
    header: str | None = None
    kind: Kind | None = None
    """None: derived from name and values."""
    style: Style | None = None


@dataclass(frozen=True)
class FittedTable:
    """Draws cells in columns that fit the terminal."""

    columns: Sequence[tuple[str, Kind]]
    rows: Sequence[Sequence[RenderableType]]
    leaving: Sequence[str] = ()
    """Names of the columns that are omitted first."""
    has_header: bool = True
    notes: Sequence[str] = field(default=())

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        layout = self._layout(console, options)
        yield self._table(layout)
        left_out = [header for index, (header, _) in enumerate(self.columns) if index not in layout.widths]
        notes = [f"left out at this width: {', '.join(left_out)}"] if left_out and self.has_header else []
        for note in (*notes, *self.notes):
            yield Text(note, style="dim")

    def has_room(self, console: Console, options: ConsoleOptions) -> bool:
        """Return whether all columns are shown and every text fits on one line."""
        widths = self._layout(console, options).widths
        return len(widths) == len(self.columns) and all(
            _size(row[index], console, options).maximum <= width
            for row in self.rows
            for index, width in widths.items()
            if self.columns[index][1] is not Kind.BAR
        )

    def _layout(self, console: Console, options: ConsoleOptions) -> Layout:
        needs = [self._need(index, console, options) for index in range(len(self.columns))]
        return fit(needs, self._leaving(), options.max_width)

    def _need(self, index: int, console: Console, options: ConsoleOptions) -> ColumnWidth:
        header, kind = self.columns[index]
        if kind is Kind.BAR:
            return ColumnWidth(max(BAR_MIN, _longest_word(header)), BAR_FULL, is_bar=True)
        sizes = [_size(row[index], console, options) for row in self.rows]
        full_width = max((size.maximum for size in sizes), default=0)
        min_width = full_width
        if kind is Kind.TEXT:
            words = max((size.minimum for size in sizes), default=0)
            min_width = max(min(words, LONG_WORD), min(full_width, COMFORT))
        elif full_width > options.max_width:  # no terminal can show it on one line
            min_width = LONG_WORD
        if self.has_header:
            min_width, full_width = max(min_width, _longest_word(header)), max(full_width, cell_len(header))
        return ColumnWidth(min_width, full_width)

    def _leaving(self) -> list[int]:
        """Return the order in which columns are omitted.

        First the named columns, then the others from the right, then ids; the first column is last.
        """
        named = {name: position for position, name in enumerate(self.leaving)}

        def order(index: int) -> tuple[bool, bool, int, int]:
            header, kind = self.columns[index]
            return index == 0 and header not in named, kind is Kind.ID, named.get(header, len(named)), -index

        return sorted(range(len(self.columns)), key=order)

    def _table(self, layout: Layout) -> Table:
        table = Table(
            box=None,
            pad_edge=False,
            padding=(0, layout.gap, 0, 0),
            header_style="bold",
            show_header=self.has_header,
        )
        for index, width in layout.widths.items():
            header, kind = self.columns[index]
            side = "right" if kind is Kind.FIGURE else "left"
            table.add_column(header, width=width, justify=side, overflow="fold")  # type: ignore[arg-type]
        for row in self.rows:
            table.add_row(*(row[index] for index in layout.widths))
        return table


def table_of(
    rows: Iterable[Mapping[str, Any]],
    columns: Sequence[Column | str],
    leaving: Sequence[str] = (),
    more: str = "",
) -> RenderableType:
    """Return a table of the rows' fields, each in the format of its name. `more`: a line below it."""
    rows, made = list(rows), [each if isinstance(each, Column) else Column(each) for each in columns]
    cells = [[_cell(row.get(column.name), column) for column in made] for row in rows]
    heads = []
    for index, column in enumerate(made):
        texts = [cell.plain for row in cells if isinstance(cell := row[index], Text)]
        header = header_of(column.name) if column.header is None else column.header
        heads.append((header, column.kind or kind_of(column.name, texts)))
    has_times = any(row.get(column.name) for column in made if column.name in MOMENTS for row in rows)
    notes = ([more] if more else []) + ([zone_note()] if has_times else [])
    return FittedTable(heads, cells, [header_of(name) for name in leaving], notes=notes)


def section_of(title: str, rows: Sequence[Mapping[str, Any]], leaving: Sequence[str] = ()) -> RenderableType:
    """Return a table of all fields of the rows, below its title."""
    return Group(Text(f"\n{title}", style="bold"), table_of(rows, list(rows[0]), leaving))


def record_of(record: Mapping[str, Any], first: Sequence[str] = ()) -> RenderableType:
    """Return one line for each field, nested ones named `outer.inner`.

    The fields of `first` come first, followed by an empty line.
    """
    fields = dict(_flat(record, ""))
    ahead = {name: fields.pop(name) for name in first if name in fields}
    groups = [
        [(header_of(name), form_of(name)(value).strip() or NOTHING) for name, value in group.items()]
        for group in (ahead, fields)
        if group
    ]
    has_times = any(name in MOMENTS and value for name, value in (ahead | fields).items())
    return RecordTable(groups, zone_note() if has_times else "")


@dataclass(frozen=True)
class RecordTable:
    """Draws names with their values; a value that does not fit beside its name goes on the line below."""

    groups: Sequence[Sequence[tuple[str, str]]]
    note: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        names = max((cell_len(name) for group in self.groups for name, _ in group), default=0)
        room = options.max_width - names - 2
        for position, group in enumerate(self.groups):
            if position:
                yield Text()
            for name, value in group:
                yield from _beside(name, value, names, room)
        if self.note:
            yield Text(self.note, style="dim")


def _beside(name: str, value: str, names: int, room: int) -> Iterator[RenderableType]:
    if _longest_word(value) > room:
        yield Text(name, style="bold")
        yield Padding(Text(value, overflow="fold"), (0, 0, 0, 2))
        return
    line = Table.grid(padding=(0, 2, 0, 0))
    line.add_column(width=names)
    line.add_column(max_width=room)
    line.add_row(Text(name, style="bold"), Text(value))
    yield line


def _flat(record: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in record.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _cell(value: Any, column: Column) -> RenderableType:
    """Return a cell that is already drawn (a bar) unchanged, any other value in its format."""
    if column.kind is Kind.BAR:
        return value if value is not None else Text()
    text = form_of(column.name)(value).strip() or NOTHING
    return Text(text, style=column.style(text) if column.style else "")


def _longest_word(text: str) -> int:
    return max(map(cell_len, text.split()), default=0)


def _size(cell: RenderableType, console: Console, options: ConsoleOptions) -> Measurement:
    """Return the widths of the longest word and of the longest line of a cell."""
    if isinstance(cell, Text):
        return Measurement(_longest_word(cell.plain), cell_len(cell.plain))
    return Measurement.get(console, options, cell)
