"""Delta tables: the driver commits files that executors wrote, and how far topics were read, at once or not at all.

The position of the last record of a topic is stored as two application transactions, TOPIC:ledger and TOPIC:entry.
Unlike the metadata of a commit, Delta keeps these in its checkpoints; and it refuses a commit whose base did not have
the transactions of the newest one, so a batch that runs twice at once lands once.
"""

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Final, Literal

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import CommitProperties, DeltaTable, QueryBuilder, Schema, Transaction, WriterProperties
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from backends.files import sync
from dispatcher.model.errors import Malformed, Refused
from spark_jobs.storage.data_files import DataFile, parquet_file
from spark_jobs.storage.folder import Folder, reaching

_CONFIGURATION: Final = {"delta.checkpointInterval": "10", "delta.logRetentionDuration": "interval 1 days"}
"""A reader fetches every commit since the last checkpoint, one request each; Delta's default is 100. Its log would go
back 30 days, to files that were deleted long ago."""
_INDEXES: Final = 1_000_000
"""The number of positions in an entry of a topic: see dispatcher.ports.StoredRecord."""
_HOUR_S: Final = 3_600
_ESCAPE: Final = re.compile("%")
_ODD: Final = re.compile(r"[%#?]|//|(?<=/)\.\.?(?=/|$)")
"""Matches what a URL of a table may not have in its path."""
_TRIES: Final = 3
"""How often a commit is tried that another change of the table, such as the deletion of old days, got in the way of."""


class Conflict(Refused):
    """Another job committed to the table since it was read."""


@dataclass(frozen=True)
class Table:
    """A table: where it is, and its columns."""

    folder: Folder
    schema: pa.Schema
    partitioned_by: str = ""
    """The column whose values have folders of their own, if any."""

    @classmethod
    def stored(cls, folder: Folder) -> "Table | None":
        """Return the table in a folder, with the columns that it has; None if there is none."""
        with reaching(folder):
            delta = _opened(folder)
            return None if delta is None else cls(folder, pa.schema(delta.schema().to_arrow()))

    def create(self) -> None:
        """Create the table if it is missing. Raises Refused, Unreachable."""
        path = self.folder.url.partition("://")[2]
        if odd := _ODD.search(path) if path else _ESCAPE.search(self.folder.url):
            cause = f"{self.folder} has {odd[0]} in it, with which delta-rs would write elsewhere."
            raise Refused(cause, "Name another folder.")
        with reaching(self.folder, "written"):
            if self.folder.is_local:  # whose error is one of the system, with a plain text
                Path(self.folder.url).mkdir(parents=True, exist_ok=True)
            try:
                self._create("ignore")
            except DeltaError:
                if _opened(self.folder) is None:  # else another job created it just now
                    raise

    def read(self) -> "TableState":
        """Return the table as its newest commit left it; empty if it does not exist. Raises Refused, Unreachable."""
        with reaching(self.folder):
            return TableState(self, _opened(self.folder))

    def replace(self, files: Sequence[DataFile]) -> None:
        """Make these files the whole table, whatever rows and columns it had. Raises Refused, Unreachable."""
        with reaching(self.folder, "written"):
            self._create("overwrite", files)
        self.tidy()

    def tidy(self, target_bytes: int = 1 << 27, keep_s: float = _HOUR_S, keep_days: int = 0) -> tuple[int, int]:
        """Merge small files up to a size, and delete unused ones. Returns how many were merged and deleted.

        It may be killed, and run beside other writers. keep_s (whole hours, at least one): how long files that no
        commit names any more are kept. keep_days: rows of older days are deleted first; 0 keeps all.
        """
        with reaching(self.folder, "written"):
            delta = DeltaTable(self.folder.url, storage_options=self.folder.delta_options())
            if keep_days:
                _delete(delta, f"day < '{datetime.now(UTC) - timedelta(days=keep_days):%Y-%m-%d}'")
            properties = WriterProperties(compression="ZSTD")
            merged = delta.optimize.compact(target_size=target_bytes, writer_properties=properties)
            hours = max(1, -int(-keep_s // _HOUR_S))
            deleted = delta.vacuum(hours, dry_run=False, enforce_retention_duration=False, full=True)
            return int(merged["numFilesRemoved"]), len(deleted)

    def _create(self, mode: Literal["ignore", "overwrite"], files: Sequence[DataFile] = ()) -> None:
        create_table_with_add_actions(
            self.folder.url, Schema.from_arrow(self.schema), [*map(_add_action, files)], mode=mode,
            partition_by=self._partitions, configuration=_CONFIGURATION, storage_options=self.folder.delta_options(),
        )  # fmt: skip

    @property
    def _partitions(self) -> list[str]:
        return [self.partitioned_by] if self.partitioned_by else []


class TableState:
    """A table as one commit left it."""

    def __init__(self, table: Table, delta: DeltaTable | None) -> None:
        self.table = table
        self._delta = delta

    @property
    def version(self) -> int:
        return -1 if self._delta is None else self._delta.version()

    @cached_property
    def files(self) -> list[DataFile]:
        """Return the files that hold the rows."""
        if self._delta is None:
            return []
        rows = pa.table(self._delta.get_add_actions(flatten=True)).to_pylist()
        name = self.table.partitioned_by
        return [
            DataFile(
                row["path"], row["num_records"] or 0, row["size_bytes"],
                {name: str(row[f"partition.{name}"])} if name else {},
            )
            for row in rows
        ]  # fmt: skip

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    def query(self, sql: str) -> pa.Table:
        """Return the result of a query, which delta-rs runs in this process. The table is called `rows`.

        Raises Malformed, Refused, Unreachable.
        """
        assert self._delta is not None
        with reaching(self.table.folder):
            try:
                found = pa.table(QueryBuilder().register("rows", self._delta).execute(sql).read_all())
            except Exception as error:  # the one for a file that cannot be read has no type of its own
                self.check_files()
                raise DeltaError(str(error)) from error
        kinds = {pa.string_view(): pa.string()}  # pyarrow cannot look for texts in views
        return found.cast(pa.schema([field.with_type(kinds.get(field.type, field.type)) for field in found.schema]))

    def check_files(self) -> None:
        """Raise Malformed for the first file that cannot be read. Not every error of a reader names it."""
        for file in self.files:
            try:
                with parquet_file(self.table.folder, file.path):
                    pass
            except (OSError, pa.ArrowException) as error:
                cause = f"{self.table.folder / file.path} cannot be read: {str(error).partition('. ')[0].rstrip('.')}."
                raise Malformed(cause, "Restore it, or remove it and run the job again.") from error

    def cursor(self, topic: str) -> str:
        """Return the position of the last record of a topic whose rows are in the table; "" for none."""
        if self._delta is None or (ledger := self._delta.transaction_version(f"{topic}:ledger")) is None:
            return ""
        entry, index = divmod(self._delta.transaction_version(f"{topic}:entry") or 0, _INDEXES)
        return f"{ledger:020d}:{entry:020d}:{index:06d}"

    def commit(
        self, added: Sequence[DataFile], cursors: Mapping[str, str] = {}, removed: Sequence[DataFile] = ()
    ) -> None:
        """Add files to the table, and remove others. Empty cursors are left as they are.

        Raises Conflict if another job has committed for one of these topics since this state was read, or removed one
        of the files; Refused; Unreachable.
        """
        cursors = {topic: cursor for topic, cursor in cursors.items() if cursor}
        actions: list[AddAction | RemoveAction] = [*map(_add_action, added), *map(_remove_action, removed)]
        state = self
        with reaching(self.table.folder, "written"):
            for tries_left in reversed(range(_TRIES)):
                try:
                    state._write(actions, cursors)
                    break
                except CommitFailedError:
                    state = self.table.read()
                    if added and state._has(added) and state._are(cursors):
                        break  # it was stored, and its receipt was lost
                    if not (state._has(removed) and state._are({topic: self.cursor(topic) for topic in cursors})):
                        cause = f"Another job writes to {self.table.folder}."
                        raise Conflict(cause, "Let it end, and run this one again.") from None
                    if not tries_left:
                        raise
        self._sync()

    def _write(self, actions: Sequence[AddAction | RemoveAction], cursors: Mapping[str, str]) -> None:
        assert self._delta is not None
        transactions = [each for topic, cursor in cursors.items() for each in _transactions(topic, cursor)]
        properties = CommitProperties({"cursors": cursors}, app_transactions=transactions)
        table = self.table
        self._delta.create_write_transaction(
            list(actions), "append", table.schema, table._partitions, commit_properties=properties
        )

    def _has(self, files: Sequence[DataFile]) -> bool:
        return {file.path for file in files} <= {file.path for file in self.files}

    def _are(self, cursors: Mapping[str, str]) -> bool:
        return all(self.cursor(topic) == cursor for topic, cursor in cursors.items())

    def _sync(self) -> None:
        """Make commits on this machine's disks survive a power loss: those of one table must not outlive another's."""
        if self.table.folder.is_local:
            log = Path(self.table.folder.url) / "_delta_log"
            sync(max(path for path in log.glob("*.json") if re.fullmatch(r"\d{20}", path.stem)))
            sync(log)


def _opened(folder: Folder) -> DeltaTable | None:
    """Return the newest version of the table in a folder; None if there is none."""
    options = folder.delta_options()
    return DeltaTable(folder.url, storage_options=options) if DeltaTable.is_deltatable(folder.url, options) else None


def _delete(delta: DeltaTable, where: str) -> None:
    """Delete rows, also those that another job adds meanwhile: delta-rs refuses a deletion that has not seen them.

    Raises Conflict if they are added faster than that.
    """
    for tries_left in reversed(range(_TRIES)):
        try:
            delta.delete(where)
            return
        except CommitFailedError:
            if not tries_left:
                raise Conflict("Another job adds rows of the days to drop.", "Run the command again later.") from None
            delta.update_incremental()


def rows_in(table: Table, paths: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of these files with all columns of the table: the partition's too, and nulls where a file has
    none."""
    files, root = table.folder.opened()
    column = pa.schema([field for field in table.schema if field.name == table.partitioned_by])
    names, partition = [f"{root}/{path}" for path in paths], ds.partitioning(column, flavor="hive")
    rows = ds.dataset(names, table.schema, "parquet", files, partition, root)
    yield from rows.to_batches(batch_readahead=1, fragment_readahead=1)


def _add_action(file: DataFile) -> AddAction:
    return AddAction(
        path=file.path,
        size=file.size,
        partition_values=file.partition,
        modification_time=_now_ms(),
        data_change=True,
        stats=json.dumps({"numRecords": file.rows}),
    )


def _remove_action(file: DataFile) -> RemoveAction:
    partition: dict[str, str | None] = {**file.partition}
    return RemoveAction(file.path, data_change=True, deletion_timestamp=_now_ms(), partition_values=partition)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _transactions(topic: str, cursor: str) -> list[Transaction]:
    ledger, entry, index = map(int, cursor.split(":"))
    return [Transaction(f"{topic}:ledger", ledger), Transaction(f"{topic}:entry", entry * _INDEXES + index)]
