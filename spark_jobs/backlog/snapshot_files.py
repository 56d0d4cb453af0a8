"""Store the snapshots of the backlog in files: one row per snapshot, one Parquet file every few minutes.

`TABLES/backlog/day=YYYY-MM-DD/snapshots-<ms of the first>.parquet`. Newer snapshots are in a spool beside the files.
Its name begins with `_`, so readers skip it; after a crash, the next run continues from it. A file appears under its
name once it is complete, and never changes afterwards.
"""

import fcntl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from backends.files import sync
from dispatcher.model.errors import InvalidInput, Refused

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
        ("at", pa.timestamp("ms", tz="UTC")),
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

_SPOOL, _LANDED, _TEMPORARY = "_spool-", "snapshots-", "_landing-"
_ROWS_AT_ONCE = 100_000
"""The number of tasks and lanes held in memory while a file is written; together they make a row group."""


@dataclass(frozen=True)
class FileSettings:
    """Settings of the snapshot files."""

    tables: Path
    """The folder of all tables."""
    every_s: float = 300.0
    """The time span that one file covers."""
    first_s: float = 60.0
    """The time span of a run's first file: shorter, so that there is soon something to see."""
    keep_days: int = 14
    """Older days are removed; 0 keeps all."""


class SnapshotFiles:
    """Appends snapshots. One process writes at a time; a second one is Refused."""

    def __init__(self, settings: FileSettings) -> None:
        self._settings = settings
        self._folder = settings.tables / FOLDER
        self._spool: _Spool | None = None
        self._until_ms = 0.0
        self._landed_any = False
        self._lock = _lock(self._folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def take_up(self) -> int:
        """Complete the files that an earlier run left. Returns the number of snapshots in them."""
        with _writing(self._folder):
            for rest in self._folder.glob(f"day=*/{_TEMPORARY}*"):
                rest.unlink()
            return sum(self._land(spool) for spool in sorted(self._folder.glob(f"{_SPOOL}*")))

    def add(self, snapshot: Mapping[str, Any]) -> Path | None:
        """Append a snapshot. Returns the file that was completed before it, if any."""
        at_ms = int(snapshot["at"].timestamp() * 1000)
        done = None
        with _writing(self._folder):
            if self._spool is not None and at_ms >= self._until_ms:
                done = self.land()
                self._prune(at_ms)
            if self._spool is None:
                self._spool = _Spool(self._folder / f"{_SPOOL}{at_ms}.arrow")
                self._until_ms = self._end_ms(at_ms)
            self._spool.append(snapshot)
        return done

    def land(self) -> Path | None:
        """Complete the current file. Returns None if there is nothing to write."""
        if self._spool is None:
            return None
        spool, self._spool = self._spool, None
        with _writing(self._folder):
            spool.close()
            self._land(spool.path)
            self._landed_any = True
            return self._home(spool.path)

    def close(self) -> None:
        """Complete the file, and let other processes write."""
        try:
            self.land()
        finally:
            self._lock.close()

    def _end_ms(self, at_ms: int) -> float:
        """Return the end of a file that starts now: midnight at the latest, so that a day's folder holds one day."""
        lasts_s = self._settings.every_s if self._landed_any else min(self._settings.first_s, self._settings.every_s)
        midnight = _day(at_ms) + timedelta(days=1)
        return min(at_ms + lasts_s * 1000, midnight.timestamp() * 1000)

    def _home(self, spool: Path) -> Path:
        first_ms = int(spool.stem.removeprefix(_SPOOL))
        return self._folder / f"day={_day(first_ms):%Y-%m-%d}" / f"{_LANDED}{first_ms}.parquet"

    def _land(self, spool: Path) -> int:
        """Make a file from a spool. If the file exists, it was made before a crash."""
        home, count = self._home(spool), 0
        home.parent.mkdir(exist_ok=True)
        if not home.exists():
            count = _write_parquet(spool, home)
        spool.unlink()
        return count

    def _prune(self, now_ms: int) -> None:
        if not self._settings.keep_days:
            return
        oldest = f"day={_day(now_ms) - timedelta(days=self._settings.keep_days):%Y-%m-%d}"
        for day in self._folder.glob("day=*"):
            if day.name < oldest:
                for file in day.iterdir():
                    file.unlink()
                day.rmdir()


class _Spool:
    """Snapshots as they arrive, on disk: an Arrow stream, from which a reader takes the complete batches."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[bytes] = path.open("wb")
        self._stream = pa.ipc.new_stream(self._file, SCHEMA)

    def append(self, snapshot: Mapping[str, Any]) -> None:
        self._stream.write_batch(pa.RecordBatch.from_pylist([dict(snapshot)], schema=SCHEMA))
        self._file.flush()

    def close(self) -> None:
        self._stream.close()
        self._file.close()


def _write_parquet(spool: Path, home: Path) -> int:
    temporary = home.with_name(f"{_TEMPORARY}{home.name}")
    count = 0
    with pq.ParquetWriter(temporary, SCHEMA, compression="zstd") as writer:
        for batches in _grouped(_whole_batches(spool)):
            writer.write_table(pa.Table.from_batches(batches, SCHEMA))
            count += len(batches)
    if not count:
        temporary.unlink()
        return 0
    sync(temporary)
    temporary.replace(home)
    return count


def _whole_batches(spool: Path) -> Iterator[pa.RecordBatch]:
    """Yield the complete batches of a spool. A killed process may have left the last one truncated."""
    with suppress(pa.ArrowInvalid, EOFError, OSError), spool.open("rb") as file, pa.ipc.open_stream(file) as stream:
        yield from stream


def _grouped(batches: Iterator[pa.RecordBatch]) -> Iterator[Sequence[pa.RecordBatch]]:
    group: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        group.append(batch)
        rows += 1 + len(batch.column("tasks").flatten()) + len(batch.column("lanes").flatten())
        if rows >= _ROWS_AT_ONCE:
            yield group
            group, rows = [], 0
    if group:
        yield group


def _day(at_ms: float) -> datetime:
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


def _lock(folder: Path) -> IO[bytes]:
    with _writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "_lock").open("ab")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.close()
            cause = f"Another process writes snapshots of the backlog to {folder}."
            raise Refused(cause, "Stop it first, or name another folder with --tables.") from error
    return lock


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Translate errors of writing into InvalidInput."""
    try:
        yield
    except OSError as error:
        raise InvalidInput(
            f"{folder} cannot be written: {error.strerror or error}.", "Name another folder with --tables."
        ) from error
