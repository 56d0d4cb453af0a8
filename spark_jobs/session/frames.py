"""Schemas and caching of DataFrames, for all jobs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def spark_schema(schema: pa.Schema) -> "StructType":
    """Return Spark's form of the schema of a table's files."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema, prefer_timestamp_ntz=False)


@contextmanager
def kept(frame: "DataFrame") -> Iterator["DataFrame"]:
    """Persist a frame for the duration of the block, so that it is computed once for all its uses."""
    frame.persist()
    try:
        yield frame
    finally:
        frame.unpersist()
