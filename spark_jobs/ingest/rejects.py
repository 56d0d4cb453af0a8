"""The table of the rows that an ingestion leaves out: a file of each attempt. The driver keeps those that count.

The driver reads none of them: what an attempt reports comes back with Spark's result.
"""

import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from dispatcher.model.errors import InvalidInput
from spark_jobs.storage.folder import Folder

if TYPE_CHECKING:
    import pyarrow as pa

_NAME_BYTES = 9


def begin(folder: Folder) -> Folder:
    """Return the empty folder to which the attempts of a run write. folder: that of the table."""
    attempts = _attempts(folder)
    attempts.delete()
    filesystem, inner = attempts.opened()
    filesystem.create_dir(inner)
    return attempts


def _attempts(folder: Folder) -> Folder:
    return Folder(f"{folder}.attempts", folder.storage)


def keep(folder: Folder, names: Iterable[str]) -> str:
    """Make these files of attempts the table, and delete all others. Returns the folder; "" without files."""
    names = [name for name in names if name]
    folder.delete()
    filesystem, inner = folder.opened()
    if names:
        filesystem.create_dir(inner)
    for name in names:
        filesystem.move(f"{inner}.attempts/{name}", f"{inner}/{name}")
    _attempts(folder).delete()
    return str(folder) if names else ""


class RejectsFile:
    """A file of the rows that an attempt leaves out. It is made with the first of them, and complete once closed."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._writer: Any = None
        self.name = ""
        """Its name in the folder; empty as long as there are no rows."""

    def __enter__(self) -> "RejectsFile":
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        if self._writer is not None:
            with _explained(self._folder):
                self._writer.close()

    def add(self, batch: "pa.RecordBatch") -> None:
        """Write rows. Raises InvalidInput if the folder cannot be written."""
        if batch.num_rows:
            with _explained(self._folder):
                self._opened(batch.schema).write_batch(batch)

    def _opened(self, schema: "pa.Schema") -> Any:
        from pyarrow.parquet import ParquetWriter

        if self._writer is None:
            filesystem, inner = self._folder.opened()
            name = f"{secrets.token_hex(_NAME_BYTES)}.parquet"
            self._writer = ParquetWriter(f"{inner}/{name}", schema, filesystem=filesystem)
            self.name = name
        return self._writer


@contextmanager
def _explained(folder: Folder) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InvalidInput(
            f"An executor cannot write the rows that are left out to {folder}: {error}.",
            "--tables must name a folder with free space that the driver and all executors share.",
        ) from error
