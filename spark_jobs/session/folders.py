"""Handle folders on any file system that Spark knows, and their names."""

import re
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_UNSAFE = re.compile(r"(?![A-Za-z0-9._-])[\x00-\x7f]")
_LONGEST_NAME = 200
"""The maximum length of a folder name in bytes; a file system allows 255."""


def folder_name(name: str) -> str:
    """Return the name of an app or a task as part of a path, whatever characters a record has in it.

    Readers of partitions decode it. A name that is too long for a folder is cut, and a digest is added to tell it from
    others.
    """
    escaped = _UNSAFE.sub(lambda each: f"%{ord(each[0]):02X}", name)
    if len(escaped.encode()) <= _LONGEST_NAME:
        return escaped
    digest = blake2b(name.encode(), digest_size=8).hexdigest()
    return f"{escaped.encode()[: _LONGEST_NAME - 20].decode(errors='ignore')}~{digest}"


def delete_folder(spark: "SparkSession", folder: str) -> None:
    """Delete a folder with its contents, if it exists."""
    path: Any = spark._jvm.org.apache.hadoop.fs.Path(folder)  # pyspark has no public API for it
    files = path.getFileSystem(spark._jsc.hadoopConfiguration())
    files.delete(path, True)  # noqa: FBT003 - Java has no keywords; with its contents
