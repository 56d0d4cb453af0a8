"""Folders on whatever file system Spark knows."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def delete_folder(spark: "SparkSession", folder: str) -> None:
    """With all that is in it, if it is there."""
    path, files = _at(spark, folder)
    files.delete(path, True)


def _at(spark: "SparkSession", folder: str) -> tuple[Any, Any]:
    """A path and its file system, of Hadoop's Java API."""
    path = spark._jvm.org.apache.hadoop.fs.Path(folder)  # there is no public way
    return path, path.getFileSystem(spark._jsc.hadoopConfiguration())
