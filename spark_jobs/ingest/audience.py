"""Read the tables that an ingestion starts from: the audience, and the targets to leave out of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dispatcher.model.errors import InvalidInput
from producers.files.audience_rows import TARGET_COLUMNS
from spark_jobs.session.failures import JobFailed, translated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMATS = ("parquet", "csv", "json", "orc", "jdbc")
_DEFAULTS: dict[str, dict[str, str]] = {"csv": {"header": "true", "enforceSchema": "false"}}
_ENDINGS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".orc": "orc"}


@dataclass(frozen=True, slots=True)
class TableSource:
    """A table to read."""

    path: str
    """A file, a folder or a pattern; for jdbc, the database's URL."""
    format: str = ""
    """One of FORMATS. Empty: by the path's ending, else parquet."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of Spark's reader (`delimiter`, `dbtable`, ...)."""

    @property
    def kind(self) -> str:
        """Return the format; if none is given, detect it."""
        if self.format:
            return self.format
        if self.path.startswith("jdbc:"):
            return "jdbc"
        return next((kind for ending, kind in _ENDINGS.items() if self.path.rstrip("/").endswith(ending)), "parquet")


def read_table(spark: "SparkSession", source: TableSource) -> "DataFrame":
    """Read a table. Raises InvalidInput if it does not exist or cannot be read in its format."""
    if source.kind not in FORMATS:
        raise InvalidInput(f"format: is {', '.join(FORMATS)}, not {source.kind!r}.")
    reader = spark.read.format(source.kind).options(**{**_DEFAULTS.get(source.kind, {}), **source.options})
    try:
        with translated():
            table = reader.option("url", source.path).load() if source.kind == "jdbc" else reader.load(source.path)
    except (InvalidInput, JobFailed) as error:
        raise InvalidInput(
            error.cause, f"Check that {source.path} is there, and the format ({source.kind})."
        ) from error
    if not table.columns:
        raise InvalidInput(f"{source.path} has no columns, so it has no rows either.", "Check the path and the format.")
    return table


def with_targets(table: "DataFrame", target: str = TARGET_COLUMNS[0]) -> "DataFrame":
    """Return the table with its column `token` or `address` renamed to `target`, if that name is wanted and missing."""
    if target != TARGET_COLUMNS[0] or target in table.columns:
        return table
    column = next((name for name in TARGET_COLUMNS if name in table.columns), target)
    return table.withColumnRenamed(column, target)


def renamed(table: "DataFrame", names: Mapping[str, str]) -> "DataFrame":
    """Rename columns. names: Fairlane's name by column.

    Raises InvalidInput for a column that does not exist, or a name that is taken.
    """
    for column, name in names.items():
        if column not in table.columns:
            raise InvalidInput(
                f"The table has no column {column}; it has {', '.join(table.columns)}.", "Check --map COLUMN=FIELD."
            )
        if name in table.columns and name not in names:
            raise InvalidInput(
                f"The table has a column {name} already, so {column} cannot be renamed to it.",
                f"Rename that one as well: --map {name}=OTHER.",
            )
    return table.toDF(*(names.get(column, column) for column in table.columns))
