"""Keep the journal's tables small in number of files: merge them, drop old days, delete what no commit names."""

from collections import Counter
from dataclasses import dataclass

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
        merged, deleted = table.tidy(target_bytes, keep_s, keep_days if name == OUTCOMES else 0)
        counts.update(before=len(state.files), after=len(table.read().files), merged=merged, deleted=deleted)
    return Compacted(counts["before"], counts["after"], counts["merged"], counts["deleted"])
