"""Store the snapshots of the backlog in the Delta table `backlog`: one row per snapshot, committed at once."""

from collections.abc import Mapping
from datetime import UTC
from itertools import groupby
from typing import Any

import pyarrow as pa

from dispatcher.model.errors import Refused
from spark_jobs.storage.data_files import DataFile, write_rows
from spark_jobs.storage.delta import Conflict, Table
from spark_jobs.storage.folder import Folder, Place, reaching

FOLDER = "backlog"
_TEXTS, _RATE, _COUNT = pa.string(), pa.float64(), pa.int64()

TASK = pa.struct(
    [
        *((name, _TEXTS) for name in ("task", "app", "tier", "channel", "state", "held", "lane")),
        *((name, pa.bool_()) for name in ("shared", "sealed")),
        *((name, _COUNT) for name in ("created_ms", "start_ms", "expires_ms", "finished_ms")),
        *((name, _COUNT) for name in ("expected", "published")),
        *((name, _COUNT) for name in ("sent", "invalid", "failed", "expired", "cancelled")),
        *((name, _COUNT) for name in ("queued", "in_flight", "claims", "retrying")),
        *((name, _RATE) for name in ("weight", "rate")),
        *((name, _COUNT) for name in ("cap", "cap_burst")),
        ("causes", pa.map_(_TEXTS, _COUNT)),
    ]
)
"""A task.

- held: the cause that held it at that moment (dispatcher.analysis.why), empty for none.
- published: targets known to be in its lane.
- queued: published targets without an outcome and not in flight.
- in_flight: targets under claims, null if there were too many to look into.
- retrying: envelopes with targets that will be tried again.
- causes: ms by cause so far.
"""
TIER = pa.struct(
    [
        *((name, _TEXTS) for name in ("pool", "tier")),
        *((name, _COUNT) for name in ("cap", "cap_burst")),
        *((name, _RATE) for name in ("weight", "busy", "waiting", "bucket", "depth")),
        *((name, _COUNT) for name in ("announced", "backlog", "granted")),
        *((name, _RATE) for name in ("rate", "wanted", "got")),
    ]
)
"""A tier in a pool that has a cap (or in `total`, which may have none).

- cap: targets/s, 0 for none.
- busy, waiting: the weights of its lanes with demand that a worker holds, and that no worker holds.
- announced: targets that workers ask for.
- backlog: targets that may be sent now.
- granted: targets so far. Set in `total` only, as are rate (recent targets/s) and got.
- wanted, got: its share among the tiers that have a backlog, and of the targets sent.
"""
LANE = pa.struct(
    [
        *((name, _TEXTS) for name in ("lane", "kind", "broker")),
        ("partition", pa.int32()),
        *((name, _COUNT) for name in ("backlog", "unacked", "consumers", "producers", "storage_bytes")),
        *((name, _RATE) for name in ("rate_in", "rate_out")),
        ("blocked", pa.bool_()),
    ]
)
"""A lane or a partition of it (-1: it has none) in its broker. backlog: entries; unacked: messages."""
WORKER = pa.struct(
    [
        *((name, _TEXTS) for name in ("worker", "host", "state")),
        *((name, _COUNT) for name in ("lanes", "in_flight", "buffered")),
        ("rate", _RATE),
    ]
)
BROKER = pa.struct([("broker", _TEXTS), ("answered", pa.bool_()), ("failure", _TEXTS)])
SCHEMA = pa.schema(
    [
        ("at", pa.timestamp("us", tz="UTC")),
        ("every_s", _RATE),
        ("took_ms", _COUNT),
        ("epoch", _TEXTS),
        ("capacity", _COUNT),
        ("capacity_burst", _COUNT),
        ("sharing", _TEXTS),
        ("caps", pa.map_(_TEXTS, _COUNT)),
        ("app_weights", pa.map_(_TEXTS, _RATE)),
        ("paused_channels", pa.list_(_TEXTS)),
        ("measured_every_s", pa.int32()),
        ("brokers", pa.list_(BROKER)),
        ("workers", pa.list_(WORKER)),
        ("tiers", pa.list_(TIER)),
        ("tasks", pa.list_(TASK)),
        ("ended", pa.list_(TASK)),
        ("lanes", pa.list_(LANE)),
    ]
)
"""A snapshot.

- at: Redis' time.
- every_s: the intended time between snapshots.
- measured_every_s: the maximum age of the brokers' figures.
- caps: targets/s by pool.
- tasks: live ones.
- ended: tasks that ended since the previous snapshot.
"""

_TABLE = SCHEMA.append(pa.field("day", pa.date32()))
_WRITER = "writer"
"""The topic whose position is the time of the newest snapshot: of two writers, one cannot commit."""
_MERGED_EVERY, _KEEP_S, _TARGET_BYTES = 60, 3_600.0, 1 << 24
"""The number of commits after which small files are merged, how long replaced files are kept, and a file's size."""


def snapshot_table(tables: Place) -> Table:
    """Return the table of snapshots. tables: the folder of all tables."""
    return Table(Folder.of(tables) / FOLDER, _TABLE, "day")


class SnapshotFiles:
    """Appends snapshots. One process writes a series at a time; a second one is Refused at its first snapshot."""

    def __init__(self, tables: Place, keep_days: int = 14, *, is_series: bool = True) -> None:
        """Create the table if it is missing. Raises Refused, Unreachable.

        tables: the folder of all tables. keep_days: older days are removed; 0 keeps all. is_series: whether snapshots
        are taken all the time, which only one process may do; a single one may come beside.
        """
        self._keep_days, self._is_series = keep_days, is_series
        self._table = snapshot_table(tables)
        self.folder = self._table.folder
        self._table.create()
        self._written = self._table.read().cursor(_WRITER)
        self._waiting: list[Mapping[str, Any]] = []
        self._tried = "", 0
        """The position of a commit that is not known to be stored, and the number of snapshots in it."""
        self._commits = 0

    def add(self, *snapshots: Mapping[str, Any]) -> str:
        """Commit snapshots, the oldest first. Returns the path of the file with the last one.

        Raises Refused; Unreachable: the snapshots are kept, and committed with the next ones.
        """
        self._waiting += snapshots
        state = self._table.read()
        if self._is_series:
            self._check(state.cursor(_WRITER))
        files = self._files()
        position = f"{int(self._waiting[-1]['at'].timestamp() * 1000):020d}:{0:020d}:{0:06d}"
        self._tried = position, len(self._waiting)
        try:
            state.commit(files, {_WRITER: position} if self._is_series else {})
        except Conflict as error:
            raise self._refused() from error
        self._written, self._waiting = position, []
        self._commits += 1
        if self._is_series and self._commits % _MERGED_EVERY == 0:
            self._table.tidy(_TARGET_BYTES, _KEEP_S, self._keep_days)
        return str(self.folder / files[-1].path)

    def _check(self, written: str) -> None:
        """Check that no other process has written, and forget the snapshots of a commit that is stored after all."""
        position, count = self._tried
        if written not in (self._written, position):
            raise self._refused()
        if written != self._written:
            self._written = written
            del self._waiting[:count]

    def _files(self) -> list[DataFile]:
        by_day = groupby(self._waiting, lambda row: f"{row['at'].astimezone(UTC):%Y-%m-%d}")
        with reaching(self.folder, "written"):
            return [file for day, rows in by_day for file in write_rows(self.folder, _TABLE, list(rows), day=day)]

    def _refused(self) -> Refused:
        cause = f"Another process writes snapshots of the backlog to {self.folder}."
        return Refused(cause, "Stop it first, or name another folder with --tables.")
