"""Tables in text files: CSV, JSON, one target a line. Spark only distributes the files and their parts; each is read as
`fairlane task submit` reads it."""

import csv
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from glob import glob
from io import BufferedReader, RawIOBase
from itertools import chain, islice, pairwise
from os.path import commonprefix
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

import msgspec
from pyarrow.fs import FileInfo, FileSelector, FileType

from backends.files import BOM
from dispatcher.model.errors import InvalidInput
from producers.files.audience_rows import Beside, Row, RowRules
from producers.files.csv_audience import END_IN_QUOTES, Header, csv_bursts, csv_table, dialect, row_maker
from producers.files.lines import Lines
from producers.files.targets_file import Format, TargetsFile
from producers.submit.cutter import MAX_SLAB, slabs_of_bursts
from producers.submit.validation import Unreadable, check_each, check_slab
from spark_jobs.source.columns import PACKED, REFUSED
from spark_jobs.storage.folder import Folder, reaching

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

MAX_PART_BYTES: Final = 64 << 20
MIN_PART_BYTES: Final = 4 << 20
_READ: Final = 1 << 20
Run = Callable[[Callable[["FilePart"], bool], Sequence["FilePart"]], Sequence[bool]]
"""Calls a function for each part, at once."""
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class FilePart:
    """The rows of a file from one position up to another."""

    file: Folder
    stop: int
    format: Format
    start: int = 0
    header: int = 0
    """The number of bytes of the header, which is read before a part that begins later."""

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """Yield the bytes of the header and of the part."""
        pieces = [(0, min(self.header, self.start)), (self.start, self.stop)]
        with open_file(self.file) as file, BufferedReader(_Pieces(self.file, file, pieces), _READ) as part:
            yield cast("BinaryIO", part)


@dataclass(frozen=True, slots=True)
class ReadingPlan:
    """The parts in which the files of a table are read."""

    parts: Sequence[FilePart]
    names: Sequence[str]
    """The columns of the table."""
    rules: RowRules
    is_csv: bool


class _Pieces(RawIOBase):
    """The bytes of some pieces of a file."""

    def __init__(self, place: Folder, file: BinaryIO, pieces: Sequence[tuple[int, int]]) -> None:
        self._place = place
        self._file = file
        self._pieces = deque(pieces)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while self._pieces:
            start, stop = self._pieces.popleft()
            with reaching(self._place):
                self._file.seek(start)
                data = self._file.read(min(len(buffer), stop - start))
            if data:
                buffer[: len(data)] = data
                self._pieces.appendleft((start + len(data), stop))
                return len(data)
        return 0


class _PartReader(TargetsFile):
    """The targets of a part."""

    def __init__(self, part: FilePart, rules: RowRules) -> None:
        super().__init__(part.file.url, part.format)
        self.rules = rules
        self._part = part
        if part.start:
            self._name += f" from byte {part.start:,}"

    def opened(self) -> AbstractContextManager[BinaryIO]:
        """Yield the bytes of the part."""
        return self._part.opened()

    def kind(self, lines: Lines) -> Format:
        """Return the format. That of a later part was found, and its encoding checked, at the file's beginning."""
        return self.format if self._part.start else super().kind(lines)

    def beginning(self) -> tuple[Format, int] | None:
        """Return the format of the file's parts, and the number of bytes of the header; None if it has no parts."""
        with self._open() as lines:
            kind = self.kind(lines)
            if not self._has_rows(lines, kind):
                return None
        return ("jsonl" if kind == "json" else kind), self._header_bytes() if self.header is not None else 0

    def csv_columns(self, names: Sequence[str]) -> Iterator[Sequence[Sequence[str | None]]]:
        """Yield the columns of rows of a CSV. names: of the columns, of which the first has the targets."""
        with self._open() as lines:
            header, bursts = csv_table(lines, self.rules, self._name)
            if header is None:
                return
            others = {name: index for index, name in enumerate(header.columns) if name and index != header.target}
            if set(others) != {*names[1:-1]}:
                raise InvalidInput(f"{self._name} has other columns than the files beside it.", "Read it by itself.")
            order = [header.target or 0, *(others[name] for name in names[1:-1])]
            make = row_maker(header, self.rules, self._name)
            for slab in slabs_of_bursts(bursts, MAX_SLAB):
                rows = [row for _, row in cast("list[Row]", slab.items) if row]
                yield _plain_columns(rows, header, order) or list(zip(*_checked_rows(rows, order, make), strict=True))

    def _header_bytes(self) -> int:
        assert self.header is not None
        taken: list[str] = []
        with self.opened() as file:
            marked = len(BOM) if file.peek(len(BOM)).startswith(BOM) else 0  # type: ignore[attr-defined]  # it is buffered
            lines = map(partial(_kept, taken), Lines(file, file))
            rows = filter(None, csv.reader(lines, **dialect(self.header.delimiter)))
            deque(islice(rows, 1 + self.header.named), maxlen=0)
        return marked + len("".join(taken).encode(errors="surrogateescape"))


def _kept(lines: list[str], line: str) -> str:
    lines.append(line)
    return line


def open_file(file: Folder) -> BinaryIO:
    """Open a file. Raises Refused, Unreachable if it is in a store that does not give it."""
    if file.is_local:
        return Path(file.url).open("rb")
    with reaching(file):
        filesystem, path = file.opened()
        return cast("BinaryIO", filesystem.open_input_file(path))


def files_at(place: Folder) -> list[tuple[Folder, int]]:
    """Return the files at a place, and the size of each: a file, all of a folder, or those of a pattern.

    Raises InvalidInput if there is none, or something else is there; Refused, Unreachable.
    """
    with reaching(place):
        path, found = _found_at(place)
    files = sorted(
        (each for each in found if each.path == path or each.base_name[0] not in "._"), key=lambda each: each.path
    )
    if not files:
        raise InvalidInput(f"{place} does not exist, or has no files.", "Check the path.")
    other = next((file.path for file in files if file.type != FileType.File), None)
    if other is not None:
        raise InvalidInput(f"{other} is not a file.", "Name a file, a folder of files, or a pattern such as a/*/*.csv.")
    return [(_beside(place, path, file.path), file.size) for file in files]


def _found_at(place: Folder) -> tuple[str, Sequence[FileInfo]]:
    """Return the path in its file system, and what is there."""
    filesystem, path = place.opened()
    info = filesystem.get_file_info(path)
    if info.type == FileType.Directory:
        return path, filesystem.get_file_info(FileSelector(path))
    if info.type != FileType.NotFound:
        return path, [info]
    if place.is_local:
        return path, filesystem.get_file_info(glob(path))  # noqa: PTH207  # of an absolute path
    others = filesystem.get_file_info(FileSelector(path.rpartition("/")[0], allow_not_found=True))
    return path, [each for each in others if fnmatchcase(each.path, path)]


def _beside(place: Folder, path: str, other: str) -> Folder:
    """Return another path in the file system of a place, which has this path there."""
    shared = len(commonprefix([path, other]))  # noqa: RUF071  # by letters
    return replace(place, url=place.url[: len(place.url) - len(path) + shared] + other[shared:])


def read_text_table(
    spark: "SparkSession",
    place: Folder,
    format: Format,  # noqa: A002  # the public word for it
    rules: RowRules,
) -> "DataFrame":
    """Return the rows of text files, with the reason why a row is refused in the column REFUSED.

    CSV: the column of targets, by the first of its names, and all others. Other formats: targets, the columns beside
    them, and all variables in the column PACKED. Raises InvalidInput for what can be no audience.
    """
    context = spark.sparkContext

    def run(function: Callable[[FilePart], bool], parts: Sequence[FilePart]) -> list[bool]:
        return context.parallelize(parts, len(parts)).map(function).collect() if parts else []

    plan = plan_reading(files_at(place), format, rules, context.defaultParallelism, run)
    schema = ", ".join(f"`{name.replace('`', '``')}` string" for name in plan.names)
    numbers = spark.range(0, len(plan.parts), 1, len(plan.parts))
    return numbers.mapInArrow(partial(read_parts, plan=plan), schema)


def plan_reading(
    files: Sequence[tuple[Folder, int]],
    format: Format,  # noqa: A002  # the public word for it
    rules: RowRules,
    cores: int,
    run: Run,
) -> ReadingPlan:
    """Return the parts in which files are read. Raises InvalidInput."""
    first = _PartReader(FilePart(*files[0], format), rules)
    first.check()
    header, names = first.header, [rules.targets[0], *rules.beside, PACKED]
    if header is not None:
        others = [name for index, name in enumerate(header.columns) if name and index != header.target]
        names = [rules.targets[0], *others]
    parts = [part for file, size in files for part in _parts(FilePart(file, size, format), rules, cores, run)]
    return ReadingPlan(parts, [*names, REFUSED], rules, is_csv=header is not None)


# ----------------------------------------------------------------- parts


def _parts(file: FilePart, rules: RowRules, cores: int, run: Run) -> Iterator[FilePart]:
    """Yield the parts of a file that can be read apart from each other."""
    size = min(MAX_PART_BYTES, max(MIN_PART_BYTES, file.stop // cores))
    reader = _PartReader(file, rules)
    beginning = reader.beginning() if file.stop > size else None
    if beginning is None:
        yield file
        return
    kind, header = beginning
    cuts = [header, *_line_starts(file, range(size, file.stop, size)), file.stop]
    cuts = sorted({cut for cut in cuts if cut >= header})
    parts = [FilePart(file.file, stop, kind, start, header) for start, stop in pairwise(cuts)]
    if kind == "csv" and reader.header is not None:
        closes = partial(_closes, written=dialect(reader.header.delimiter))
        known = run(partial(_may_close, closes=closes), parts[:-1])
        parts = list(_merged(parts, known, closes))
    parts[0] = replace(parts[0], start=0)
    yield from parts


def _merged(parts: Sequence[FilePart], known: Sequence[bool], closes: Callable[[FilePart], bool]) -> Iterator[FilePart]:
    """Yield parts of which each begins with a row: those that do not are joined to the part before.

    known: of each part but the last, whether a row ends at its end if a row begins at its beginning.
    """
    open_part: FilePart | None = None
    for part, is_closed in zip(parts, [*known, True], strict=True):
        if open_part is not None:
            part = replace(part, start=open_part.start)
            is_closed = part.stop == parts[-1].stop or closes(part)
        open_part = None if is_closed else part
        if is_closed:
            yield part


def _closes(part: FilePart, written: dict[str, Any]) -> bool:
    """Return whether the last row of a part ends with it, and not in the next part."""
    with replace(part, header=0).opened() as file:
        if not any(b'"' in data for data in iter(partial(file.read, _READ), b"")):
            return True
    with replace(part, header=0).opened() as file:
        lines, last = Lines(file, file), None
        try:
            for burst in csv_bursts(lines, written, part.file.url):
                last = next(iter(deque(burst, maxlen=1)), last)
        except InvalidInput:
            if lines.first():
                raise
            return False  # it is not closed up to the end of the part
    return last is None or not (isinstance(last[1], Unreadable) and END_IN_QUOTES in last[1].reason)


def _may_close(part: FilePart, closes: Callable[[FilePart], bool]) -> bool:
    """Return what `_closes` returns for a part that may begin within a row."""
    try:
        return closes(part)
    except InvalidInput:
        return False


def _line_starts(file: FilePart, positions: Sequence[int]) -> Iterator[int]:
    """Yield the position of the first line that begins behind each of these positions, if there is one."""
    with open_file(file.file) as opened:
        for position in positions:
            opened.seek(position)
            at = position
            while data := opened.read(1 << 16):
                if (end := data.find(b"\n")) >= 0:
                    yield at + end + 1
                    break
                at += len(data)


# ----------------------------------------------------------------- rows


def _plain_columns(rows: Sequence[Any], header: Header, order: Sequence[int]) -> list[Sequence[str | None]] | None:
    """Return the columns of rows of a CSV; None if some of these may be wrong."""
    if set(map(type, rows)) != {list} or set(map(len, rows)) != {len(header.columns)}:
        return None
    cells = [list(map(str.strip, column)) for column in zip(*rows, strict=True)]
    if any(any(cells[index]) for index, name in enumerate(header.columns) if not name):
        return None
    if not _is_utf_8(chain.from_iterable(cells)):
        return None
    return [*(cells[index] for index in order), [None] * len(rows)]


def _checked_rows(
    rows: Sequence[Any], order: Sequence[int], make: Callable[[list[str]], object]
) -> Iterator[tuple[str | None, ...]]:
    """Yield the cells of each row of a CSV, and why it is refused."""
    for row in rows:
        item = row if isinstance(row, Unreadable) else make(row)
        if not isinstance(item, Unreadable) and _is_utf_8(row):
            yield *(row[index].strip() for index in order), None
        else:
            refusal = check_each([item], int)[1][0]
            yield refusal.target, *(None for _ in order[1:]), refusal.reason


def _is_utf_8(row: Iterable[str]) -> bool:
    try:
        "".join(row).encode()
    except UnicodeEncodeError:
        return False
    return True


def read_parts(batches: "Iterator[pa.RecordBatch]", plan: ReadingPlan) -> "Iterator[pa.RecordBatch]":
    """Read the parts with these numbers."""
    import pyarrow as pa

    for number in chain.from_iterable(batch.column(0).to_pylist() for batch in batches):
        reader = _PartReader(plan.parts[number], plan.rules)
        slabs = (_columns(slab.items, len(plan.rules.beside)) for slab in reader.slabs(MAX_SLAB))
        for columns in reader.csv_columns(plan.names) if plan.is_csv else slabs:
            yield pa.RecordBatch.from_arrays([pa.array(column, pa.string()) for column in columns], list(plan.names))


def _columns(items: Sequence[object], width: int) -> list[Sequence[str | None]]:
    """Return the columns of the table for targets of a file. width: the number of those beside the targets."""
    parted = [_parted(item, width) for item in items] if width else [(item, ()) for item in items]
    beside = list(zip(*(values for _, values in parted), strict=True))
    accepted, refusals = check_slab([target for target, _ in parted], int)
    targets: list[str | None] = [*accepted.addresses]
    variables = [_encode(own).decode() if own else None for own in accepted.variables or [None] * len(targets)]
    reasons: list[str | None] = [None] * len(targets)
    for refusal in refusals:  # in order, so that each is put at its place
        targets.insert(refusal.line, refusal.target)
        variables.insert(refusal.line, None)
        reasons.insert(refusal.line, refusal.reason)
    return [targets, *beside, variables, reasons]


def _parted(item: object, width: int) -> tuple[object, tuple[str | None, ...]]:
    """Return a target, and the cells beside it as texts."""
    if not isinstance(item, Beside):
        return item, (None,) * width
    if any(value is not None and type(value) not in (str, int) for value in item.values):
        return Unreadable("a column of the split is neither text nor a whole number"), (None,) * width
    return item.target, tuple(None if value is None else str(value).strip() for value in item.values)
