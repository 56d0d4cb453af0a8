"""Read the tables that an ingestion starts from: the audience, and the targets to leave out of it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from backends.settings import StorageSettings
from dispatcher.model.errors import InvalidInput
from producers.files.audience_rows import TARGET_COLUMNS, RowRules
from producers.files.targets_file import Format
from spark_jobs.ingest.text_table import files_at, open_file, read_text_table
from spark_jobs.session.failures import JobFailed, translated
from spark_jobs.source.columns import PACKED, REFUSED
from spark_jobs.storage.folder import FROM_ENVIRONMENT, Folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TEXT_FORMATS = ("csv", "json", "jsonl", "lines", "auto")
"""Formats that Fairlane reads itself, so that a table is the same audience for all commands."""
FORMATS = ("parquet", *TEXT_FORMATS, "orc", "jdbc")
_ENDINGS = {
    ".parquet": "parquet", ".orc": "orc", ".csv": "csv", ".tsv": "csv", ".txt": "lines",
    ".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl",
}  # fmt: skip
_BEGINNINGS = {b"PAR1": "parquet", b"ORC": "orc"}
_AS_IT_IS = {"header": "true", "multiline": "true", "quote": '"', "escape": '"'}
"""Options of Spark's readers that say how Fairlane reads text files anyway."""
_UNREAD_TYPE = re.compile(r"PARQUET_TYPE_|TIME_TYPE|DECIMAL_PRECISION")
_OTHER_TYPE = (
    "it has a column of a type that Spark does not read. Store times as microseconds, UUIDs as text, and numbers as "
    "double or with at most 38 digits."
)


@dataclass(frozen=True, slots=True)
class TableSource:
    """A table to read."""

    path: str
    """A file, a folder or a pattern; for jdbc, the database's URL."""
    format: str = ""
    """One of FORMATS. Empty: by the path's ending, else by the content."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of Spark's reader (`delimiter`, `dbtable`, ...)."""
    storage: StorageSettings = FROM_ENVIRONMENT
    """The keys of its store, if it is in one. Spark has those of its session."""

    @property
    def kind(self) -> str:
        """Return the format; if none is given, detect it."""
        if self.format:
            return self.format
        if self.path.startswith("jdbc:"):
            return "jdbc"
        path = self.path.rstrip("/").lower().removesuffix(".gz")
        return next((kind for ending, kind in _ENDINGS.items() if path.endswith(ending)), "") or self._by_content()

    @property
    def text_format(self) -> Format:
        """Return the format of a text file; by its name and content if it is not given."""
        kind = "auto" if not self.format and Path(self.path).is_file() else self.kind
        return cast("Format", kind)

    @property
    def place(self) -> Folder:
        """Return where it is, with the keys of its store."""
        return Folder.of(self.path, self.storage)

    @property
    def spark_path(self) -> str:
        """Return the path for Spark, which has a default file system of its own."""
        return self.path if self.place.is_local else self.place.spark_url

    def _by_content(self) -> str:
        """Return the format that the first file's first bytes have; parquet if they cannot be read here."""
        try:
            with open_file(files_at(self.place)[0][0]) as file:
                begin = file.read(4)
        except (InvalidInput, OSError):
            return "parquet"
        return next((kind for mark, kind in _BEGINNINGS.items() if begin.startswith(mark)), "auto")


def read_table(spark: "SparkSession", source: TableSource, rules: RowRules = RowRules()) -> "DataFrame":
    """Read a table. Raises InvalidInput if it does not exist or cannot be read in its format.

    rules: for text files, whose columns have Fairlane's names already: `renamed` and `with_targets` change nothing.
    """
    kind = source.kind
    if kind not in FORMATS:
        raise InvalidInput(f"format: is {', '.join(FORMATS)}, not {kind!r}.")
    if kind in TEXT_FORMATS:
        rules = replace(rules, delimiter=_delimiter(source))
        return read_text_table(spark, source.place, source.text_format, rules)
    reader = spark.read.format(kind).options(**source.options)
    try:
        with translated():
            table = reader.option("url", source.path).load() if kind == "jdbc" else reader.load(source.spark_path)
    except (InvalidInput, JobFailed) as error:
        step = _OTHER_TYPE if _UNREAD_TYPE.search(error.cause) else f"Check that it is there, and the format ({kind})."
        raise InvalidInput(error.cause, f"{source.path}: {step}") from error
    if not table.columns:
        raise InvalidInput(f"{source.path} has no columns, so it has no rows either.", "Check the path and the format.")
    return table


def _delimiter(source: TableSource) -> str | None:
    """Return the delimiter that the options name. Raises InvalidInput for options that only Spark has."""
    options = {name.lower(): value for name, value in source.options.items()}
    delimiter = options.pop("delimiter", options.pop("sep", None))
    delimiter = "\t" if delimiter == r"\t" else delimiter
    other = next((name for name, value in options.items() if _AS_IT_IS.get(name) != value.lower()), None)
    if other is not None or (delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n')):
        raise InvalidInput(
            f"--option {other or 'delimiter'}: {source.path} is read as `fairlane task submit` reads it, not by Spark.",
            "Its only option is delimiter, one character. Convert the table to Parquet, or leave the option out.",
        )
    return delimiter


def with_targets(table: "DataFrame", target: str = TARGET_COLUMNS[0]) -> "DataFrame":
    """Return the table with its column `token` or `address` renamed to `target`, if that name is wanted and missing."""
    if target != TARGET_COLUMNS[0] or target in table.columns or REFUSED in table.columns:
        return table
    column = next((name for name in TARGET_COLUMNS if name in table.columns), target)
    return table.withColumnRenamed(column, target)


def renamed(table: "DataFrame", names: Mapping[str, str]) -> "DataFrame":
    """Rename columns. names: Fairlane's name by column.

    Raises InvalidInput for a column that does not exist, or a name that is taken.
    """
    is_done = REFUSED in table.columns
    for column, name in names.items():
        if is_done and (name in (*table.columns, *TARGET_COLUMNS) or PACKED in table.columns):
            continue
        if column not in table.columns:
            raise InvalidInput(
                f"The table has no column {column}; it has {', '.join(table.columns)}.", "Check --map COLUMN=FIELD."
            )
        if name in table.columns and name not in names:
            raise InvalidInput(
                f"The table has a column {name} already, so {column} cannot be renamed to it.",
                f"Rename that one as well: --map {name}=OTHER.",
            )
    return table if is_done else table.toDF(*(names.get(column, column) for column in table.columns))
