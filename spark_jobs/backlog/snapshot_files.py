"""Store the snapshots of the backlog in the Delta table `backlog`: one row per snapshot, a file every minute.

Each hour the small files are merged. A process that is killed loses the snapshots since its last file.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import pyarrow as pa

from dispatcher.model.errors import Refused
from spark_jobs.storage.data_files import write_rows
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
_MERGED_EVERY_MS, _KEEP_S, _TARGET_BYTES = 3_600_000, 3_600.0, 1 << 26


def snapshot_table(tables: Place) -> Table:
    """Return the table of snapshots. tables: the folder of all tables."""
    return Table(Folder.of(tables) / FOLDER, _TABLE, "day")


@dataclass(frozen=True)
class FileSettings:
    """Settings of the snapshot files."""

    tables: Place
    """The folder of all tables."""
    every_s: float = 60.0
    """The time span that one file covers."""
    keep_days: int = 14
    """Older days are removed; 0 keeps all."""
    is_series: bool = True
    """Whether snapshots are taken all the time, which only one process may do; a single one may come beside."""


class SnapshotFiles:
    """Appends snapshots. One process writes a series at a time; a second one is Refused at its first file."""

    def __init__(self, settings: FileSettings) -> None:
        self._settings = settings
        self._table = snapshot_table(settings.tables)
        self._table.create()
        self._state = self._table.read()
        self._rows: list[Mapping[str, Any]] = []
        self._until_ms, self._merged_ms = 0.0, 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.land()

    def add(self, snapshot: Mapping[str, Any]) -> str | None:
        """Append a snapshot. Returns the file that was written before it, if any. Raises Refused, Unreachable."""
        at_ms = int(snapshot["at"].timestamp() * 1000)
        try:
            if self._rows and at_ms >= self._until_ms:
                done = self.land()
                self._tidy(at_ms)
                return done
        finally:  # kept for the next try if the store is away
            if not self._rows:
                self._until_ms = self._end_ms(at_ms)
            self._rows.append(snapshot)
        return None

    def land(self) -> str | None:
        """Write the snapshots so far to a file. Returns None if there are none."""
        if not self._rows:
            return None
        first, last = self._rows[0]["at"], self._rows[-1]["at"]
        with reaching(self._table.folder, "written"):
            rows = write_rows(self._table.folder, _TABLE, self._rows, day=f"{first.astimezone(UTC):%Y-%m-%d}")
        try:
            position = f"{int(last.timestamp() * 1000):020d}:{0:020d}:{0:06d}"
            self._state.commit(rows, {_WRITER: position} if self._settings.is_series else {})
        except Conflict as error:
            cause = f"Another process writes snapshots of the backlog to {self._table.folder}."
            raise Refused(cause, "Stop it first, or name another folder with --tables.") from error
        self._rows = []
        self._state = self._table.read()
        return str(self._table.folder / rows[0].path)

    def _end_ms(self, at_ms: int) -> float:
        """Return the end of a file that starts now: midnight at the latest, so that a day's folder holds one day."""
        midnight = _day(at_ms) + timedelta(days=1)
        return min(at_ms + self._settings.every_s * 1000, midnight.timestamp() * 1000)

    def _tidy(self, now_ms: int) -> None:
        """Merge the small files and remove old days, once an hour."""
        if now_ms - self._merged_ms < _MERGED_EVERY_MS:
            return
        self._merged_ms = now_ms
        if self._settings.keep_days:
            self._table.delete(f"day < '{_day(now_ms) - timedelta(days=self._settings.keep_days):%Y-%m-%d}'")
        self._table.compact(_TARGET_BYTES)
        self._table.vacuum(_KEEP_S)


def _day(at_ms: float) -> datetime:
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)
