"""Delta tables as DataFrames, by the list of their files, and DataFrames as their files: no connector is needed."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_jobs.session.frames import spark_schema
from spark_jobs.storage.data_files import DataFile, FileWriter
from spark_jobs.storage.delta import Table, rows_in
from spark_jobs.storage.folder import reaching

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def frame_of(spark: "SparkSession", table: Table, files: Sequence[DataFile]) -> "DataFrame":
    """Return the rows of these files of a table.

    Spark reads files on disks and in HDFS itself; those in an object store are read by pyarrow in the executors, so
    Spark needs no connector to the store.
    """
    columns = spark_schema(table.schema)
    if not files:
        return spark.createDataFrame([], columns)
    folder = table.folder
    if folder.is_local or folder.url.startswith("hdfs:"):
        paths = [f"{folder.spark_url}/{file.path}" for file in files]
        return spark.read.schema(columns).option("basePath", folder.spark_url).parquet(*paths)
    paths = spark.createDataFrame([(file.path,) for file in files], "path string")
    return paths.repartition(min(len(files), _MAX_PARTS)).mapInArrow(partial(_read, table=table), columns)


_MAX_PARTS = 1_000


def _read(paths: Iterator[pa.RecordBatch], table: Table) -> Iterator[pa.RecordBatch]:
    """Read the rows of files. Runs in an executor."""
    for batch in paths:
        with reaching(table.folder):
            yield from rows_in(table, batch.column(0).to_pylist())


def write_frame(frame: "DataFrame", table: Table) -> list[DataFile]:
    """Write the rows to new files of a table, in the executors. They belong to it once they are committed."""
    written = frame.mapInArrow(partial(_write, table=table), "path string, rows bigint, size bigint").collect()
    return [DataFile(row["path"], row["rows"], row["size"]) for row in written]


def _write(batches: Iterator[pa.RecordBatch], table: Table) -> Iterator[pa.RecordBatch]:
    """Write the rows of one part. Runs in an executor."""
    writer = FileWriter(table.folder, table.schema)
    with reaching(table.folder, "written"):
        for batch in batches:
            writer.write(batch)
        for file in writer.close():
            yield pa.RecordBatch.from_pylist([{"path": file.path, "rows": file.rows, "size": file.size}])
