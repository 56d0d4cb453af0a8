"""Read the records that another version skipped again, and apply those that this version can read.

Both folds do this when they begin. Control records may be applied in any order. For outcome records, the first final
outcome of a target counts; targets that were closed or recorded meanwhile keep their outcome.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import closing

from backends.redis.skipped_records import SkippedRecords
from dispatcher.ports import OpenReader, StoredRecord

_log = logging.getLogger(__name__)
_READ_S = 1.0


def recheck(
    skipped: SkippedRecords, topic: str, open_reader: OpenReader, apply: Callable[[Sequence[StoredRecord]], None]
) -> None:
    """Read and apply records that other versions skipped, in topic order.

    `apply` stores the positions of those that it cannot read either, under this version. Raises Unreachable; all of
    them are then read again the next time.
    """
    positions = skipped.of_others(topic)
    if not positions:
        return
    records = [record for position in positions if (record := _at(position, open_reader)) is not None]
    apply(records)
    skipped.forget(topic, sorted(set(positions) & set(skipped.of_others(topic))))
    _log.info("%d records of %s that another version skipped were checked again", len(records), topic)


def _at(position: str, open_reader: OpenReader) -> StoredRecord | None:
    """Return the record stored at a position, or None if the topic has deleted it."""
    with closing(open_reader(before(position))) as reader:
        while not reader.at_end():
            records = reader.read(1, _READ_S)
            if records and records[0].position >= position:
                return records[0] if records[0].position == position else None
    return None


def before(position: str) -> str:
    """Return a position after which reading begins with the entry that holds this position."""
    ledger, entry, _ = position.split(":")
    return f"{ledger}:{int(entry) - 1:020d}:{0:06d}"
