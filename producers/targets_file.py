"""Reads audiences from files: CSV, JSON lines, or one target a line; streaming, with the lines of what is wrong."""

import csv
import gzip
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import compress
from pathlib import Path
from typing import IO, Any, Literal, cast

import msgspec

from dispatcher.errors import InvalidInput
from dispatcher.task import Target
from producers.cutter import Slab, slabs_of
from producers.standard_input import standard_input
from producers.validation import Unreadable

Format = Literal["auto", "csv", "jsonl", "lines"]
STDIN = "-"
TARGET_COLUMNS = ("target", "token", "address")
"""The column (CSV) or key (JSON lines) that holds the target; the first of them that is there."""
_FORMATS: dict[str, Format] = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".txt": "lines"}
_GZIP_MAGIC = b"\x1f\x8b"
_PEEKED = 4_096

Items = tuple[list[object], list[int]]
"""Targets, and the line of each."""
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
        """Whether more targets may come later."""
        return str(self.path) == STDIN

    def __repr__(self) -> str:
        return f"TargetsFile({str(self.path)!r})"

    def __iter__(self) -> Iterator[object]:
        for slab in self.slabs(1):
            yield from slab.items

    def check(self) -> None:
        """Raises InvalidInput if there is no such file, or its beginning cannot be an audience (standard input is not
        looked at)."""
        if str(self.path) != STDIN:
            with self._open() as file:
                next(self._read(file, 1), None)

    def slabs(self, unit: int) -> Iterator[Slab]:
        """Raises InvalidInput if the file cannot be read, or is a CSV without a target's column."""
        left = self._limit
        with self._open() as file:
            for items, lines in self._read(file, unit):
                if left is not None:
                    items, lines = items[:left], lines[:left]
                    left -= len(items)
                if items:
                    yield Slab(items, lines[0], lines)
                if left == 0:
                    return

    def _read(self, file: IO[str], unit: int) -> Iterator[Items]:
        kind = self._kind(file)
        if kind == "csv":
            return _csv_items(file, unit, self._keep, str(self.path))
        if kind == "jsonl":
            return _jsonl_items(file, unit, self._keep)
        if self._keep:
            raise InvalidInput(f"{self.path}: has one target a line, and no columns to filter by.")
        return _line_items(file, unit)

    def _kind(self, file: IO[str]) -> Format:
        if self.format != "auto":
            return self.format
        suffix = Path(str(self.path).removesuffix(".gz")).suffix.lower()
        return _FORMATS.get(suffix) or _guess(_peek(file).split(b"\n", 1)[0])

    @contextmanager
    def _open(self) -> Iterator[IO[str]]:
        try:
            with _binary(self.path) as raw:
                head = cast("io.BufferedReader", raw).peek(2)[:2]
                plain = gzip.GzipFile(fileobj=raw) if head == _GZIP_MAGIC else raw
                # Bytes that are no UTF-8 become characters that cannot be printed: such a target is refused.
                text = io.TextIOWrapper(cast("IO[bytes]", plain), "utf-8-sig", errors="surrogateescape", newline="")
                try:
                    yield text
                finally:
                    text.detach()
        except (OSError, EOFError) as error:
            raise InvalidInput(f"targets: {self.path} cannot be read: {error}.") from error


@contextmanager
def _binary(path: str | Path) -> Iterator[IO[bytes]]:
    if str(path) == STDIN:
        with standard_input() as file:
            yield file
    else:
        with Path(path).open("rb") as file:
            yield file


def _peek(file: IO[str]) -> bytes:
    return cast("io.BufferedReader", cast("io.TextIOWrapper", file).buffer).peek(_PEEKED)


def _guess(first_line: bytes) -> Format:
    if first_line.lstrip(b"\xef\xbb\xbf \t")[:1] in (b"{", b'"') and b"," not in first_line.split(b":", 1)[0]:
        return "jsonl"
    cells = [cell.strip().strip('"').lower() for cell in first_line.decode(errors="replace").split(",")]
    return "csv" if len(cells) > 1 or cells[0].lstrip("\ufeff") in TARGET_COLUMNS else "lines"


# ----------------------------------------------------------------- one target a line


def _line_items(file: IO[str], unit: int) -> Iterator[Items]:
    for slab in slabs_of(file, unit):
        items: list[Any] = list(map(str.strip, slab.items))  # type: ignore[arg-type]  # lines of text
        lines: Any = range(slab.first_line, slab.first_line + len(items))
        if not all(items):
            items, lines = list(filter(None, items)), list(compress(lines, items))
        yield items, lines


# ----------------------------------------------------------------- JSON lines

_decode = msgspec.json.Decoder().decode


def _jsonl_items(file: IO[str], unit: int, keep: Keep) -> Iterator[Items]:
    for slab in slabs_of(file, unit):
        items: list[object] = []
        lines: list[int] = []
        for line, text in enumerate(cast("list[str]", slab.items), slab.first_line):
            item = _jsonl_item(text.strip(), keep)
            if item is not None:
                items.append(item)
                lines.append(line)
        yield items, lines


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


def _csv_items(file: IO[str], unit: int, keep: Keep, path: str) -> Iterator[Items]:
    reader = csv.reader(file)
    rows = _numbered(reader)
    first = next(rows, None)
    if first is None:
        return
    if isinstance(first[1], Unreadable):
        cause = first[1].reason.removeprefix("the line ")
        raise InvalidInput(f"targets: the first line of {path} {cause}.", "Mend it, or take it away.")
    header = [cell.strip() for cell in first[1]]
    column = _target_column(header)
    if column is None:
        if len(header) > 1 or keep:
            raise InvalidInput(
                f"targets: {path} has no column named {' or '.join(TARGET_COLUMNS)}.",
                "Name the columns in the first line; without that line it can have one column only.",
            )
        make: Callable[[list[str]], object] = _single_cell
        yield [_single_cell(first[1])], [first[0]]
    else:
        make = _row_maker(header, column, keep, path)
    for slab in slabs_of(rows, unit):
        yield _made(cast("list[tuple[int, list[str] | Unreadable]]", slab.items), make)


def _made(rows: Iterable[tuple[int, list[str] | Unreadable]], make: Callable[[list[str]], object]) -> Items:
    items: list[object] = []
    lines: list[int] = []
    for line, row in rows:
        item = row if isinstance(row, Unreadable) else make(row) if row else None
        if item is not None:
            items.append(item)
            lines.append(line)
    return items, lines


def _numbered(reader: Any) -> Iterator[tuple[int, Any]]:
    """Rows with the lines they begin on; an Unreadable for one that breaks the format."""
    while True:
        line = reader.line_num + 1
        try:
            yield line, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield line, Unreadable(f"the line is not CSV: {error}")


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
