"""Keep the journal's tables small in number of files: merge them, drop old days, delete what no commit names."""

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from spark_jobs.journal.files import OUTCOMES, SCHEMAS, journal_table
from spark_jobs.storage.folder import Folder


@dataclass(frozen=True)
class Compacted:
    """The result of `compact`."""

    files_before: int
    files_after: int
    merged: int
    """The number of files that were merged."""
    deleted: int
    """The number of unused files that were deleted."""


def compact(tables: Folder, target_bytes: int, keep_s: float, keep_days: int = 0) -> Compacted:
    """Merge files up to a size, and delete unused ones. Raises FairlaneError.

    It can be killed at any moment and run again, and may run beside `journal run`. keep_s: how long files that no
    commit names are kept, for readers that began before. keep_days: older days of outcomes are dropped; 0 keeps all.
    """
    counts = Counter[str]()
    for name in SCHEMAS:
        table = journal_table(tables, name)
        state = table.read()
        if state.version < 0:
            continue
        counts["before"] += len(state.files)
        if name == OUTCOMES and keep_days:
            table.delete(f"day < '{datetime.now(UTC) - timedelta(days=keep_days):%Y-%m-%d}'")
        counts["merged"] += table.compact(target_bytes)
        counts["after"] += len(table.read().files)
        counts["deleted"] += table.vacuum(keep_s)
    return Compacted(counts["before"], counts["after"], counts["merged"], counts["deleted"])
