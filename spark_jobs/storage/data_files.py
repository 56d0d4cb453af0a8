"""Write the Parquet files of a table. A file belongs to the table once a commit names it."""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from backends.files import sync
from spark_jobs.storage.folder import Folder

_COMPRESSION = "zstd"


@dataclass(frozen=True)
class DataFile:
    """A Parquet file of a table."""

    path: str
    """The path below the table's folder."""
    rows: int
    size: int
    """In bytes."""
    partition: Mapping[str, str] = field(default_factory=dict)
    """The value that all its rows have in the column that partitions the table."""


class FileWriter:
    """Writes one new file, in an executor or on the driver. It is made with the first rows."""

    def __init__(self, table: Folder, schema: pa.Schema, prefix: str = "", **partition: str) -> None:
        """Prepare the file. table: its folder, which exists. schema: of the table. prefix: of the file's name."""
        self._partition, self._rows, self._table = partition, 0, table
        self._folder = "".join(f"{name}={value}/" for name, value in partition.items())
        self._path = f"{self._folder}{prefix}{secrets.token_hex(8)}.parquet"
        self._schema = file_schema(schema, partition)
        self._sink: pa.NativeFile | None = None

    def write(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Write rows as a row group. Columns that the table lacks are left out."""
        if not rows.num_rows:
            return
        if self._sink is None:
            self._open()
        self._rows += rows.num_rows
        self._writer.write(rows.select(self._schema.names).cast(self._schema), row_group_size=rows.num_rows)

    def _open(self) -> None:
        files, root = self._table.opened()
        if self._folder and self._table.is_local:
            files.create_dir(f"{root}/{self._folder}", recursive=False)
        self._sink = files.open_output_stream(f"{root}/{self._path}")
        self._writer = pq.ParquetWriter(self._sink, self._schema, compression=_COMPRESSION)

    def close(self) -> list[DataFile]:
        """Complete the file. Returns it, or nothing if there were no rows."""
        if self._sink is None:
            return []
        self._writer.close()
        size = self._sink.tell()
        self._sink.close()
        if self._table.is_local:
            sync(Path(self._table.url) / self._path)
        return [DataFile(self._path, self._rows, size, self._partition)]


def write_rows(
    table: Folder, schema: pa.Schema, rows: Sequence[Mapping[str, Any]], prefix: str = "", **partition: str
) -> list[DataFile]:
    """Write a few rows to a file. Returns no file if there are no rows."""
    writer = FileWriter(table, schema, prefix, **partition)
    writer.write(pa.Table.from_pylist(list(rows), schema=file_schema(schema, partition)))
    return writer.close()


def file_schema(schema: pa.Schema, partition: Mapping[str, str]) -> pa.Schema:
    """Return the columns that are in a file: the table's without that of its partition."""
    return pa.schema([each for each in schema if each.name not in partition])


@contextmanager
def parquet_file(table: Folder, path: str, **options: Any) -> Iterator[pq.ParquetFile]:
    """Open a file of a table."""
    files, root = table.opened()
    with files.open_input_file(f"{root}/{path}") as source, pq.ParquetFile(source, **options) as file:
        yield file
