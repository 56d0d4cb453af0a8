"""Read audiences from files: CSV, JSON, or one target a line. Reading is streamed, and errors name their lines."""

import gzip
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cached_property
from itertools import compress
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

from dispatcher.model.errors import InvalidInput
from producers.files.audience_rows import Items, Parse, RowRules
from producers.files.csv_audience import DELIMITERS, Header, csv_rows, csv_table, is_csv
from producers.files.json_audience import array_rows, jsonl_items
from producers.files.lines import Lines, count_lines
from producers.files.standard_input import standard_input
from producers.submit.cutter import Slab, slabs_of_bursts

Format = Literal["auto", "csv", "json", "jsonl", "lines"]
STDIN = "-"
_FORMATS: dict[str, Format] = {
    ".csv": "csv", ".tsv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".txt": "lines",
}  # fmt: skip
_MAX_NOT_UTF_8 = 0.05
"""The part of the first lines that may be damaged. With more, the file is in another encoding."""
_GZIP_MAGIC = b"\x1f\x8b"


class TargetsFile:
    """An audience in a file, or "-" for standard input, which can be read once. Pass it to `submit` directly.

    CSV: the header names a column target, token or address; other columns become variables of the target. The delimiter
    (, ; tab |) is the one with which the header has such a column, or the one that a first line such as `sep=;` names.
    White space around cells is removed, and columns without a name are left out. JSON: an array of values or one value
    a line, each a text, or an object with target and variables (or, without these, its other keys). Any other file: one
    target a line; blank lines are skipped. gzip is recognised. where: take only rows whose column (key) has one
    of the values; such columns only select and are not variables. limit: the maximum number of these rows to take.
    """

    def __init__(
        self,
        path: str | Path,
        format: Format = "auto",  # noqa: A002  # the public word for it
        where: Mapping[str, str | Sequence[str]] | None = None,
        limit: int | None = None,
    ) -> None:
        self.path = path
        self._name = "standard input" if str(path) == STDIN else str(path)
        self.format = format
        self.rules = RowRules(keep={name: [v] if isinstance(v, str) else list(v) for name, v in (where or {}).items()})
        """The rules by which columns become targets."""
        self._limit = limit
        self._raw: BinaryIO | None = None
        """The file itself while it is being read."""
        self._packed = False

    @property
    def waits(self) -> bool:
        """Return whether targets may come later. If so, none can be read twice."""
        return str(self.path) == STDIN or Path(self.path).is_fifo()

    @property
    def part_read(self) -> float | None:
        """Return the part of the file's bytes read so far; None if it is not being read or has no size."""
        raw = self._raw
        try:
            return None if raw is None or self.waits else raw.tell() / max(1, Path(self.path).stat().st_size)
        except (OSError, ValueError):  # the file was closed or is gone
            return None

    @property
    def columns(self) -> Sequence[str] | None:
        """The columns of variables, from the first line of a CSV. None for other files and for standard input, which
        can be read once."""
        return None if self.header is None else [name for _, name in self.header.variables(self.rules)]

    @property
    def notes(self) -> Sequence[str]:
        """Unusual forms in the first lines of a CSV that were understood."""
        return [f"{self._name}: {note}" for note in self.header.notes()] if self.header is not None else []

    @cached_property
    def header(self) -> Header | None:
        """The columns of a CSV. None for other files, without a column of targets, and for standard input."""
        if self.waits:
            return None
        with self._open() as lines, suppress(InvalidInput):
            return csv_table(lines, self.rules, self._name)[0] if self.kind(lines) == "csv" else None
        return None

    def estimate(self) -> int | None:
        """Return the approximate number of targets: the file's lines, counted without parsing them.

        Return None where lines say nothing: a filter, an array, gzip, a pipe.
        """
        if self.waits or self.rules.keep:
            return None
        with self._open() as lines:
            kind = self.kind(lines)
            if not self._has_rows(lines, kind):
                return None
            assert self._raw is not None
            count = max(0, count_lines(self._raw) - (kind == "csv"))
        return count if self._limit is None else min(count, self._limit)

    def __repr__(self) -> str:
        return f"TargetsFile({str(self.path)!r})"

    def __iter__(self) -> Iterator[object]:
        for slab in self.slabs(1):
            yield from slab.items

    def check(self, *, allow_empty: bool = True) -> None:
        """Raise InvalidInput if the file is missing, its beginning cannot be an audience, or it has no rows to take.

        allow_empty: accept a file without rows. Standard input and pipes are not checked.
        """
        if not self.waits and next(self.slabs(1), None) is None and not allow_empty:
            cause = "no rows that the filter keeps" if self.rules.keep else "no targets"
            raise InvalidInput(f"targets: {self._name} has {cause}; `--allow-empty` accepts that.")

    def slabs(self, unit: int) -> Iterator[Slab]:
        """Yield the file's slabs.

        Raises InvalidInput if the file cannot be read, is a CSV without a target column, or is malformed so that the
        beginning of the next target is unclear.
        """
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
        """Return lines or rows in bursts, and the parser that makes targets of them."""
        kind = self.kind(lines)
        if kind == "csv":
            return csv_rows(lines, self.rules, self._name)
        if kind == "json" and lines.beginning().lstrip().startswith("["):
            return array_rows(lines, self.rules, self._name)
        if kind in ("json", "jsonl"):
            return lines.bursts(), lambda slab: jsonl_items(slab, self.rules)
        if self.rules.keep:
            raise InvalidInput(f"targets: {self._name} has one target a line, and no columns to filter by.")
        return lines.bursts(), _line_items

    def _has_rows(self, lines: Lines, kind: Format) -> bool:
        """Return whether the lines of the file itself are its rows."""
        return not self._packed and not (kind == "json" and lines.beginning().lstrip().startswith("["))

    def opened(self) -> AbstractContextManager[BinaryIO]:
        """Yield the bytes of the file."""
        return standard_input() if str(self.path) == STDIN else Path(self.path).open("rb")

    def kind(self, lines: Lines) -> Format:
        """Return the format, from the name and the first lines unless it is given. Raises InvalidInput if that is no
        text in UTF-8."""
        if "\0" in lines.beginning():  # UTF-16, a spreadsheet, Parquet
            raise InvalidInput(
                f"targets: {self._name} is not a text in UTF-8: its first line has NUL characters.",
                "Save it as UTF-8, as CSV or one target a line; `fairlane ingest` reads Parquet.",
            )
        bad, count = lines.not_utf_8()
        if bad > 1 and bad > _MAX_NOT_UTF_8 * count:
            raise InvalidInput(
                f"targets: {self._name} is not a text in UTF-8: {bad:,} of its first {count:,} lines are not.",
                "Save it as UTF-8; it may be in Latin-1 or Windows-1252.",
            )
        if self.format != "auto":
            return self.format
        suffix = Path(str(self.path).removesuffix(".gz")).suffix.lower()
        kind = _FORMATS.get(suffix) or _guess(lines.beginning())
        if kind == "lines" and _is_json(lines.beginning()):
            raise InvalidInput(
                f"targets: {self._name} would be read as one target a line, but begins as JSON does.",
                "Name it .json (an array) or .jsonl (a value a line), or say how to read it: `--format`.",
            )
        return kind

    @contextmanager
    def _open(self) -> Iterator[Lines]:
        try:
            with self.opened() as raw:
                self._raw = raw
                self._packed = raw.peek(2)[:2] == _GZIP_MAGIC  # type: ignore[attr-defined]  # all buffered readers have it
                yield Lines(cast("BinaryIO", gzip.GzipFile(fileobj=raw)) if self._packed else raw, raw)
        except (OSError, EOFError, zlib.error) as error:
            raise InvalidInput(f"targets: {self._name} cannot be read: {error}.") from error


def _guess(line: str) -> Format:
    """Guess the format of a file without a known suffix from its first line."""
    if _is_json(line) or (line.lstrip().startswith('"') and "," not in line and not is_csv(line)):
        return "json"
    return "csv" if is_csv(line) or any(each in line.strip() for each in DELIMITERS) else "lines"


def _is_json(line: str) -> bool:
    return line.lstrip()[:1] == "[" or (line.lstrip()[:1] == "{" and "," not in line.split(":", 1)[0])


# ----------------------------------------------------------------- one target a line


def _line_items(slab: Slab) -> Items:
    items: list[Any] = list(map(str.strip, slab.items))  # type: ignore[arg-type]  # lines of text
    lines: Any = range(slab.first_line, slab.first_line + len(items))
    if not all(items):
        items, lines = list(filter(None, items)), list(compress(lines, items))
    return items, lines
