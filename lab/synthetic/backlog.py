"""Synthetic snapshots and outcomes of a busy service, to measure the report on the backlog."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dispatcher.model.pools import TOTAL
from dispatcher.model.tier import DEFAULT_TIER_WEIGHTS, MILLI, TIERS
from lab.synthetic.journal import RECORD, outcome_table
from spark_jobs.backlog.snapshot_files import SCHEMA, SnapshotFiles
from spark_jobs.journal.files import OUTCOMES, journal_table
from spark_jobs.journal.job import create_journal
from spark_jobs.storage.data_files import FileWriter
from spark_jobs.storage.folder import Folder

APPS, CHANNELS = 7, ("push", "mail")
WEIGHTS = {str(tier): weight / MILLI for tier, weight in DEFAULT_TIER_WEIGHTS.items()}
_ROWS_AT_ONCE, _SNAPSHOTS_AT_ONCE = 1 << 19, 30
_USED = 0.9
"""The capacity as a part of the arrivals: the backlog grows."""


@dataclass(frozen=True)
class SyntheticBacklog:
    """The size of a synthetic backlog: tasks of 1,000 to two million targets over `snapshots` of every_s."""

    outcomes: int = 10_000_000
    """The number of rows in the journal."""
    tasks: int = 400
    snapshots: int = 8_640
    every_s: float = 10.0
    seed: int = 2026


@dataclass(kw_only=True)
class _Task:
    name: str
    app: str
    channel: str
    tier: str
    size: int
    start_s: float
    publishing_s: float
    published: int = 0
    done: float = 0.0
    causes: dict[str, int] = field(default_factory=dict)

    def row(self, first: datetime) -> dict[str, Any]:
        done = int(self.done)
        empty = dict.fromkeys((entry.name for entry in SCHEMA.field("tasks").type.value_type), 0)
        texts = {"task": self.name, "app": self.app, "tier": self.tier, "channel": self.channel, "state": "running"}
        counts = {"published": self.published, "sent": done, "queued": self.published - done, "weight": 1.0}
        created_ms = int((first.timestamp() + self.start_s) * 1000)
        lane = f"persistent://made-up/tasks-00/{self.name}"
        more = {"held": "", "lane": lane, "created_ms": created_ms, "causes": list(self.causes.items())}
        return {**empty, **texts, **counts, **more, "shared": False, "sealed": True, "rate": 0.0}


Sent = tuple[int, _Task, float]
"""(index of the time span between snapshots, task, number of targets)"""


def make_tables(folder: Path, size: SyntheticBacklog, until: datetime) -> None:
    """Write the tables `backlog` and `journal`; equal sizes give equal tables."""
    first = until.astimezone(UTC) - timedelta(seconds=size.every_s * size.snapshots)
    chance = random.Random(size.seed)
    lasts_s = size.every_s * size.snapshots
    tasks = [
        _Task(
            name=f"task-{number:05d}",
            app=f"app-{number % APPS}",
            channel=CHANNELS[number % len(CHANNELS)],
            tier=str(TIERS[number % len(TIERS)]),
            size=int(10 ** chance.uniform(3, 6.3)),
            start_s=chance.uniform(-0.1, 0.95) * lasts_s,
            publishing_s=chance.uniform(10, lasts_s / 4),
        )
        for number in range(size.tasks)
    ]
    sent: list[Sent] = []
    files, snapshots = SnapshotFiles(folder, keep_days=0), _snapshots(tasks, size, first, sent)
    while rows := list(islice(snapshots, _SNAPSHOTS_AT_ONCE)):
        files.add(*rows)
    _make_journal(folder, size, first, sent)


def _snapshots(
    tasks: Sequence[_Task], size: SyntheticBacklog, first: datetime, sent: list[Sent]
) -> Iterator[dict[str, Any]]:
    capacity = sum(task.size for task in tasks) / (size.every_s * size.snapshots) * _USED
    granted = dict.fromkeys(WEIGHTS, 0)
    for number in range(size.snapshots):
        now_s = number * size.every_s
        live = [task for task in tasks if task.start_s <= now_s and task.done < task.size]
        for task in live:
            task.published = min(task.size, int(task.size * (now_s - task.start_s) / task.publishing_s))
        for tier, weight in WEIGHTS.items():
            waiting = [task for task in live if task.tier == tier and task.published > task.done]
            for task in waiting:
                part = capacity * size.every_s * weight / sum(WEIGHTS.values()) / len(waiting)
                count = min(task.published - task.done, part)
                task.done += count
                granted[tier] += int(count)
                task.causes["tier_share"] = task.causes.get("tier_share", 0) + int(size.every_s * 700)
                sent.append((number, task, count))
        yield _row(live, granted, int(capacity), first, now_s, size.every_s)


def _row(
    live: Sequence[_Task], granted: dict[str, int], capacity: int, first: datetime, now_s: float, every_s: float
) -> dict[str, Any]:
    rows = [task.row(first) for task in live]
    backlog = {tier: sum(row["queued"] for row in rows if row["tier"] == tier) for tier in WEIGHTS}
    weights = sum(WEIGHTS[tier] for tier in WEIGHTS if backlog[tier]) or 1.0
    empty = dict.fromkeys((entry.name for entry in SCHEMA.field("tiers").type.value_type), 0)
    tiers = [
        {
            **empty,
            "pool": TOTAL,
            "tier": tier,
            "cap": capacity,
            "weight": WEIGHTS[tier],
            "backlog": backlog[tier],
            "granted": granted[tier],
            "wanted": WEIGHTS[tier] / weights if backlog[tier] else 0.0,
        }
        for tier in WEIGHTS
    ]
    lists = dict.fromkeys(("brokers", "workers", "lanes", "caps", "app_weights", "paused_channels"), ())
    scalars = {"every_s": every_s, "took_ms": 5, "measured_every_s": 10, "epoch": "made-up", "sharing": "tasks"}
    ended = {task.name for task in live if task.done >= task.size}
    return {
        **scalars,
        **lists,
        "at": first + timedelta(seconds=now_s),
        "capacity": capacity,
        "capacity_burst": 0,
        "tiers": tiers,
        "tasks": [row for row in rows if row["task"] not in ended],
        "ended": [row for row in rows if row["task"] in ended],
    }


def _make_journal(folder: Path, size: SyntheticBacklog, first: datetime, sent: Sequence[Sent]) -> None:
    chance = np.random.default_rng(size.seed)
    parts = np.array([count for _, _, count in sent])
    rows = chance.multinomial(size.outcomes, parts / parts.sum())
    create_journal(Folder.of(folder))
    table, added = journal_table(folder, OUTCOMES), []
    indexes_by_file: dict[tuple[str, str], list[int]] = {}
    for index, (number, task, _) in enumerate(sent):
        day = f"{first + timedelta(seconds=number * size.every_s):%Y-%m-%d}"
        indexes_by_file.setdefault((day, task.app), []).append(index)
    for (day, _), indexes in indexes_by_file.items():
        writer = FileWriter(table.folder, table.schema, day=day)
        of_rows: npt.NDArray[np.int64] = np.repeat(indexes, rows[indexes])
        for begin in range(0, len(of_rows), _ROWS_AT_ONCE):
            writer.write(_outcomes(of_rows[begin : begin + _ROWS_AT_ONCE], size, first, sent, chance))
        added += writer.close()
    table.read().commit(added)


def _outcomes(
    indexes: np.ndarray, size: SyntheticBacklog, first: datetime, sent: Sequence[Sent], chance: np.random.Generator
) -> pa.Table:
    count = len(indexes)
    stretches = np.array([sent[index][0] for index in indexes])
    at_us = (first.timestamp() + (stretches + chance.random(count)) * size.every_s) * 1e6
    columns = {
        "task": pa.array([sent[index][1].name for index in indexes]),
        "app": pa.array([sent[index][1].app for index in indexes]),
        "channel": pa.array([sent[index][1].channel for index in indexes]),
        "writer": "0",
        "sequence": np.arange(count),
        "position": 0,
        "attempt": (chance.random(count) < 0.05).astype(np.int32),
        "outcome": np.where(chance.random(count) < 0.98, "sent", "invalid"),
        "at": at_us.astype("datetime64[us]"),
        "latency_ms": np.exp(chance.normal(8, 1.5, count)).astype(np.int64),
        "topic": 0,
        "record": RECORD,
    }
    return outcome_table(count, columns)
