"""Snapshots of the backlog and outcomes of the journal, a few of each, for tests of the report."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

START = datetime(2026, 3, 4, 12, tzinfo=UTC)
START_MS = int(START.timestamp() * 1000)
TIERS = ("high", "medium", "low")
WEIGHTS = {"high": 6.0, "medium": 3.0, "low": 1.0}


def ms(seconds: float) -> int:
    """Return the wall time at these seconds after the first snapshot."""
    return START_MS + round(seconds * 1000)


def task(name: str, published: int, sent: int, **fields: Any) -> dict[str, Any]:
    """Make a task row: by default app `shop`, tier high, channel push, created with the first snapshot."""
    given: dict[str, Any] = {
        "task": name, "app": "shop", "tier": "high", "channel": "push", "state": "running", "held": "",
        "lane": f"persistent://fairlane/tasks-00/{name}", "shared": False, "sealed": True, "created_ms": START_MS,
        "start_ms": 0, "expires_ms": 0, "finished_ms": 0, "expected": -1, "published": published, "sent": sent,
        "invalid": 0, "failed": 0, "expired": 0, "cancelled": 0, "in_flight": 0, "claims": 0, "retrying": 0,
        "weight": 1.0, "rate": 0.0, "cap": 0, "cap_burst": 0, "causes": {},
    }  # fmt: skip
    row = given | fields
    settled = sum(row[outcome] for outcome in ("sent", "invalid", "failed", "expired", "cancelled"))
    return {**row, "queued": row["published"] - settled, "causes": list(row["causes"].items())}


def lane(name: str, backlog: int, partition: int = -1, consumers: int = 2) -> dict[str, Any]:
    return {
        "lane": f"persistent://fairlane/tasks-00/{name}", "kind": "own", "broker": "b", "partition": partition,
        "backlog": backlog, "unacked": 0, "consumers": consumers, "producers": 0, "storage_bytes": 1,
        "rate_in": 0.0, "rate_out": 0.0, "blocked": False,
    }  # fmt: skip


def tiers(
    granted: Mapping[str, int], backlog: Mapping[str, int], pool: str = "total", cap: int = 0
) -> list[dict[str, Any]]:
    weights = sum(WEIGHTS[tier] for tier in backlog if backlog[tier])
    return [
        {
            "pool": pool, "tier": tier, "cap": cap, "cap_burst": 0, "weight": WEIGHTS[tier],
            "busy": 0.0, "waiting": 0.0, "bucket": 0.0, "depth": 0.0, "announced": 0, "backlog": backlog.get(tier, 0),
            "granted": granted.get(tier, 0) if pool == "total" else None, "rate": None,
            "wanted": WEIGHTS[tier] / weights if backlog.get(tier) else 0.0, "got": None,
        }
        for tier in TIERS
    ]  # fmt: skip


def snapshot(seconds: float, *tasks: dict[str, Any], **fields: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "at": START + timedelta(seconds=seconds), "every_s": 10.0, "took_ms": 5, "epoch": "e", "capacity": 0,
        "capacity_burst": 0, "sharing": "tasks", "caps": [], "app_weights": [], "paused_channels": [],
        "measured_every_s": 10, "brokers": [], "workers": [], "tiers": tiers({}, {}),
        "tasks": list(tasks), "ended": [], "lanes": [],
    }  # fmt: skip
    return given | fields


def write(folder: Path, *rows: dict[str, Any]) -> Path:
    """Write snapshots as `fairlane backlog snapshot` does, those of a day to one file."""
    from spark_jobs.backlog.snapshot_files import SnapshotFiles

    SnapshotFiles(folder, keep_days=0).add(*rows)
    return folder


def outcome(name: str, seconds: float, latency_ms: int, result: str = "sent", **fields: Any) -> dict[str, Any]:
    """A row of a file of outcomes."""
    at = START + timedelta(seconds=seconds)
    place = {"writer": "0", "sequence": 0, "position": 0, "topic": 0, "record": "0"}
    row = {"task": name, "outcome": result, "at": at, "latency_ms": latency_ms}
    return {"channel": "push", "attempt": 0, **place, **row} | fields
