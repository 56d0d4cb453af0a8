"""The Delta table of the rows that an ingestion leaves out: each run replaces those of the one before.

Attempts write files, and the driver commits those of the attempts that count.
"""

import pyarrow as pa

from spark_jobs.session.folders import folder_name
from spark_jobs.storage.delta import Table
from spark_jobs.storage.folder import Folder, Place


def rejects_folder(tables: Place, task: str) -> Folder:
    """Return the folder of a task's rejects. tables: that of all tables."""
    return Folder.of(tables) / "rejects" / f"task={folder_name(task)}"


def rejects_table(folder: Folder, rows: pa.Schema) -> Table:
    """Return the table of the rows that an ingestion leaves out, in columns that Delta has."""
    return Table(folder, pa.schema([field.with_type(_stored(field.type)) for field in rows]))


def _stored(kind: pa.DataType) -> pa.DataType:
    """Return the type for values of a type: Delta has no times of day, durations and nulls, which become texts."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_stored(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_stored(kind.key_type), _stored(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(_stored(kind.value_type))
    return pa.string() if pa.types.is_time(kind) or pa.types.is_duration(kind) or pa.types.is_null(kind) else kind
