"""Reads audiences from files: CSV, JSON lines, or one target a line; streaming, with the lines of what is wrong."""

import csv
import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, compress
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

import msgspec

from dispatcher.errors import InvalidInput
from dispatcher.task import Target
from producers.cutter import Slab, slabs_of_bursts
from producers.lines import Lines
from producers.standard_input import standard_input
from producers.validation import Unreadable

Format = Literal["auto", "csv", "jsonl", "lines"]
STDIN = "-"
TARGET_COLUMNS = ("target", "token", "address")
"""The column (CSV) or key (JSON lines) that holds the target; the first of them that is there."""
_FORMATS: dict[str, Format] = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".txt": "lines"}
_GZIP_MAGIC = b"\x1f\x8b"

Items = tuple[list[object], Sequence[int]]
"""Targets, and the line of each."""
Parse = Callable[[Slab], Items]
Row = tuple[int, list[str] | Unreadable]
"""A row of CSV, with the line it begins on."""
Keep = Mapping[str, Sequence[str]]


class TargetsFile:
    """An audience in a file (or "-": standard input, which can be read once). Hand it to `submit` as it is.

    CSV: with a header that names a column target, token or address (other columns become variables of the target), or
    one column without a header. JSON lines: a text, or an object with target and variables (or, without these, its
    other keys). Else one target a line; blank lines are skipped. gzip is recognised. where: rows are kept whose column
    (key) has one of the values; such columns only choose, and are no variables. limit: the first so many rows of these.
    """

    def __init__(
        self,
        path: str | Path,
        format: Format = "auto",  # noqa: A002  # the public word for it
        where: Mapping[str, str | Sequence[str]] | None = None,
        limit: int | None = None,
    ) -> None:
        self.path = path
        self.format = format
        self._keep: Keep = {name: [v] if isinstance(v, str) else list(v) for name, v in (where or {}).items()}
        self._limit = limit

    @property
    def waits(self) -> bool:
        """Whether more targets may come later, and none can be read twice."""
        return str(self.path) == STDIN or Path(self.path).is_fifo()

    def __repr__(self) -> str:
        return f"TargetsFile({str(self.path)!r})"

    def __iter__(self) -> Iterator[object]:
        for slab in self.slabs(1):
            yield from slab.items

    def check(self) -> None:
        """Raises InvalidInput if there is no such file, or its beginning cannot be an audience (standard input and
        pipes are not looked at)."""
        if not self.waits:
            with self._open() as lines:
                next(self._rows(lines)[0], None)

    def slabs(self, unit: int) -> Iterator[Slab]:
        """Raises InvalidInput if the file cannot be read, or is a CSV without a target's column."""
        left = self._limit
        with self._open() as file:
            bursts, parse = self._rows(file)
            for slab in slabs_of_bursts(bursts, unit):
                items, lines = parse(slab)
                if left is not None:
                    items, lines = items[:left], lines[:left]
                    left -= len(items)
                if items:
                    yield Slab(items, lines[0], lines)
                if left == 0:
                    return

    def _rows(self, lines: Lines) -> tuple[Iterator[Iterable[object]], Parse]:
        """Lines or rows in bursts, and the function that makes targets of them."""
        kind = self._kind(lines)
        if kind == "csv":
            return _csv_rows(lines, self._keep, str(self.path))
        if kind == "jsonl":
            return lines.bursts(), lambda slab: _jsonl_items(slab, self._keep)
        if self._keep:
            raise InvalidInput(f"{self.path}: has one target a line, and no columns to filter by.")
        return lines.bursts(), _line_items

    def _kind(self, lines: Lines) -> Format:
        if self.format != "auto":
            return self.format
        suffix = Path(str(self.path).removesuffix(".gz")).suffix.lower()
        return _FORMATS.get(suffix) or _guess(lines.first())

    @contextmanager
    def _open(self) -> Iterator[Lines]:
        try:
            with _binary(self.path) as raw:
                head = raw.peek(2)[:2]  # type: ignore[attr-defined]  # as all buffered readers have
                yield Lines(cast("BinaryIO", gzip.GzipFile(fileobj=raw)) if head == _GZIP_MAGIC else raw, raw)
        except (OSError, EOFError, zlib.error) as error:
            raise InvalidInput(f"targets: {self.path} cannot be read: {error}.") from error


@contextmanager
def _binary(path: str | Path) -> Iterator[BinaryIO]:
    if str(path) == STDIN:
        with standard_input() as file:
            yield file
    else:
        with Path(path).open("rb") as file:
            yield file


def _guess(first_line: str) -> Format:
    if first_line.lstrip(" \t")[:1] in ("{", '"') and "," not in first_line.split(":", 1)[0]:
        return "jsonl"
    cells = [cell.strip().strip('"').lower() for cell in first_line.split(",")]
    return "csv" if len(cells) > 1 or cells[0] in TARGET_COLUMNS else "lines"


# ----------------------------------------------------------------- one target a line


def _line_items(slab: Slab) -> Items:
    items: list[Any] = list(map(str.strip, slab.items))  # type: ignore[arg-type]  # lines of text
    lines: Any = range(slab.first_line, slab.first_line + len(items))
    if not all(items):
        items, lines = list(filter(None, items)), list(compress(lines, items))
    return items, lines


# ----------------------------------------------------------------- JSON lines

_decode = msgspec.json.Decoder().decode


def _jsonl_items(slab: Slab, keep: Keep) -> Items:
    items: list[object] = []
    lines: list[int] = []
    for line, text in enumerate(cast("list[str]", slab.items), slab.first_line):
        item = _jsonl_item(text.strip(), keep)
        if item is not None:
            items.append(item)
            lines.append(line)
    return items, lines


def _jsonl_item(text: str, keep: Keep) -> object:
    """None if it is not wanted."""
    if not text:
        return None
    try:
        value = _decode(text.encode())
    except (msgspec.MsgspecError, UnicodeError) as error:
        return Unreadable(f"the line is not JSON: {error}", text)
    if isinstance(value, dict):
        return from_mapping(value, keep, text)
    if isinstance(value, str):
        return None if keep else value
    return Unreadable("the line is neither a text nor an object", text)


def from_mapping(row: dict[str, Any], keep: Keep, text: str) -> object:
    """The target that an object describes (an Unreadable if none); None if `keep` does not want it."""
    if any(str(row.get(name)) not in values for name, values in keep.items()):
        return None
    column = next((name for name in TARGET_COLUMNS if name in row), None)
    if column is None:
        return Unreadable(f"the object has no {' or '.join(TARGET_COLUMNS)}", text)
    variables = row.get("variables")
    if "variables" not in row:
        variables = {name: value for name, value in row.items() if name != column and name not in keep}
    return Target(row[column], variables or None)


# ----------------------------------------------------------------- CSV


def _csv_rows(source: Lines, keep: Keep, path: str) -> tuple[Iterator[Iterable[Row]], Parse]:
    bursts = _csv_bursts(source)
    first = next(chain.from_iterable(bursts), None)
    if first is None:
        return iter(()), _line_items
    if isinstance(first[1], Unreadable):
        cause = first[1].reason.removeprefix("the line ")
        raise InvalidInput(f"targets: the first line of {path} {cause}.", "Mend it, or take it away.")
    header = [cell.strip() for cell in first[1]]
    column = _target_column(header)
    if column is not None:
        return bursts, _parser(_row_maker(header, column, keep, path))
    if len(header) > 1 or keep:
        raise InvalidInput(
            f"targets: {path} has no column named {' or '.join(TARGET_COLUMNS)}.",
            "Name the columns in the first line; without that line it can have one column only.",
        )
    return chain([[first]], bursts), _parser(_single_cell)


def _csv_bursts(source: Lines) -> Iterator[Iterator[Row]]:
    """Rows with the lines they begin on; an Unreadable for one that breaks the format."""
    reader = csv.reader(source)

    def burst() -> Iterator[Row]:
        while source.taken > reader.line_num or source.present():
            line = reader.line_num + 1
            try:
                yield line, next(reader)
            except csv.Error as error:
                yield line, Unreadable(f"the line is not CSV: {error}")

    while source.taken > reader.line_num or source.first():
        yield burst()


def _parser(make: Callable[[list[str]], object]) -> Parse:
    return lambda slab: _made(cast("list[Row]", slab.items), make)


def _made(rows: Iterable[Row], make: Callable[[list[str]], object]) -> Items:
    items: list[object] = []
    lines: list[int] = []
    for line, row in rows:
        item = row if isinstance(row, Unreadable) else make(row) if row else None
        if item is not None:
            items.append(item)
            lines.append(line)
    return items, lines


def _target_column(header: Sequence[str]) -> int | None:
    names = [name.lower() for name in header]
    return next((names.index(name) for name in TARGET_COLUMNS if name in names), None)


def _single_cell(row: list[str]) -> object:
    return row[0].strip() if len(row) == 1 else Unreadable(f"the line has {len(row)} columns, not 1", ",".join(row))


def _row_maker(header: list[str], column: int, keep: Keep, path: str) -> Callable[[list[str]], object]:
    missing = [name for name in keep if name not in header]
    if missing:
        raise InvalidInput(f"filter: {path} has no column {', '.join(missing)}; it has {', '.join(header)}.")
    wanted = [(header.index(name), frozenset(values)) for name, values in keep.items()]
    others = [(place, name) for place, name in enumerate(header) if place != column and name not in keep]
    width = len(header)

    def make(row: list[str]) -> object:
        if len(row) != width:
            return Unreadable(f"the line has {len(row)} columns, not {width}", ",".join(row))
        for place, values in wanted:
            if row[place] not in values:
                return None
        address = row[column].strip()
        return Target(address, {name: row[place] for place, name in others}) if others else address

    return make
