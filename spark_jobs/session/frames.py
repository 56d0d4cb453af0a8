"""Schemas, caching and columns of DataFrames, for all jobs."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from dispatcher.channels.specs import SPECS
from dispatcher.channels.submission.address import BLANKS, address_form

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def spark_schema(schema: pa.Schema) -> "StructType":
    """Return Spark's form of the schema of a table's files."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema, prefer_timestamp_ntz=False)


def map_batches(
    frame: "DataFrame",
    function: "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]",
    schema: "StructType | str",
) -> "DataFrame":
    """Return frame.mapInArrow(function, schema), whatever letters the names of columns have: Spark itself takes a dot
    for a field of a struct there."""
    plain = frame.toDF(*(f"column_{index}" for index in range(len(frame.columns))))
    return plain.mapInArrow(partial(_with_names, function, frame.columns), schema)


def _with_names(
    function: "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]",
    names: Sequence[str],
    batches: "Iterator[pa.RecordBatch]",
) -> "Iterator[pa.RecordBatch]":
    return function(batch.rename_columns(list(names)) for batch in batches)


@contextmanager
def kept(frame: "DataFrame") -> Iterator["DataFrame"]:
    """Persist a frame for the duration of the block, so that it is computed once for all its uses."""
    frame.persist()
    try:
        yield frame
    finally:
        frame.unpersist()


if TYPE_CHECKING:
    from pyspark.sql import Column


def quoted(name: str) -> str:
    """Return a column's name for Spark's expressions, whatever letters it has."""
    return "`" + name.replace("`", "``") + "`"


def canonical(target: "Column", channel: "str | Column") -> "Column":
    """Return targets as `address_form` of their channel makes them."""
    from pyspark.sql import functions as f

    data = target.cast("binary")
    ends = f.substring(data, 1, 1), f.substring(data, -1, 1)
    first, last = ((end <= f.lit(b" ")) | (end >= f.lit(b"\x80")) for end in ends)  # else it is no blank
    # Spark's trim compares letters with all blanks: for each of 10 million targets that took as long as the rest.
    trimmed = f.when(first | last, f.btrim(target, f.lit(BLANKS))).otherwise(target)
    if isinstance(channel, str):
        return f.lower(trimmed) if address_form(channel).folds_case else trimmed
    folding = [name for name in SPECS if address_form(name).folds_case]
    return f.when(channel.isin(folding), f.lower(trimmed)).otherwise(trimmed)
