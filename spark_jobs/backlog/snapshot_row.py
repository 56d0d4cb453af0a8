"""Builds the row of one snapshot of the backlog; spark_jobs.backlog.snapshot_files describes its columns."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from backends.pulsar.broker_lanes import BrokerAnswer, answered_lanes
from backends.redis.backlog import BacklogState, BacklogTask, ClaimedTargets
from backends.redis.keys import BUCKET_UNIT
from dispatcher.analysis.rates import tier_rates
from dispatcher.analysis.served import Served
from dispatcher.analysis.why import held_now
from dispatcher.model.pools import TOTAL
from dispatcher.model.service_settings import globals_of
from dispatcher.model.tier import MILLI, TIERS
from dispatcher.model.view import Globals, TaskView
from dispatcher.wire.outcome import OUTCOME_NAMES
from dispatcher.wire.topics import side_of_lane, task_of_lane
from fairlane.figures.signals import wanted_shares
from spark_jobs.backlog.snapshot_files import BROKER, LANE, TASK, WORKER

Row = dict[str, Any]


@dataclass(frozen=True)
class SnapshotHeader:
    """How a snapshot was taken."""

    every_s: float
    """Planned time until the next snapshot."""
    took_ms: int
    """From the first request to the last answer."""
    measured_every_s: int | None
    """Maximum age of the brokers' figures, if known."""


def snapshot_row(backlog: BacklogState, brokers: Sequence[BrokerAnswer], taken: SnapshotHeader) -> Row:
    """Return one row from what Redis and the brokers reported at one moment."""
    settings, served = globals_of(backlog.settings, backlog.at_ms), Served.by(backlog.beats)
    return {
        "at": datetime.fromtimestamp(backlog.at_ms / 1000, UTC),
        "every_s": taken.every_s,
        "took_ms": taken.took_ms,
        "epoch": backlog.epoch,
        "capacity": settings.capacity,
        "capacity_burst": settings.burst,
        "sharing": settings.sharing,
        "caps": [(pool, cap.rate) for pool, cap in settings.caps.items()],
        "app_weights": list(settings.app_weights.items()),
        "paused_channels": sorted(settings.paused_channels),
        "measured_every_s": taken.measured_every_s,
        "brokers": [_row(BROKER, each, answered=each.lanes is not None) for each in brokers],
        "workers": [_row(WORKER, beat, worker=beat.id) for beat in backlog.beats],
        "tiers": _tiers(backlog, settings),
        "tasks": [_task(task, backlog.in_flight, settings, served) for task in backlog.tasks],
        "ended": [_task(task, backlog.in_flight, settings, served) for task in backlog.ended],
        "lanes": [
            _row(LANE, lane, lane=lane.topic, kind=kind_of_lane(lane.topic), broker=broker)
            for broker, lane in answered_lanes(brokers)
        ],
    }


def _row(columns: pa.StructType, source: object, /, **given: Any) -> Row:
    """Return a row of these columns: the given values, and for all others the source's attributes of their names."""
    return {name: given[name] if name in given else getattr(source, name) for name in columns.names}


def _task(task: BacklogTask, in_flight: ClaimedTargets, settings: Globals, served: Served) -> Row:
    view, targets = task.view, task.view.targets
    flying = min(in_flight.targets.get(view.id, 0), targets.pending)
    return _row(
        TASK,
        view,
        task=view.id,
        held=held_now(view, settings, served),
        expected=view.expected_targets,
        published=targets.total,
        queued=targets.pending - flying,
        in_flight=flying if in_flight.known else None,
        claims=task.claims,
        retrying=task.open,
        causes=list(task.why.items()),
        **{name: getattr(targets, name) for name in OUTCOME_NAMES},
    )


def kind_of_lane(topic: str) -> str:
    """Return the kind of a lane: own, shared, side or retry."""
    if task_of_lane(topic) is not None:
        return "own"
    if side_of_lane(topic) is not None:
        return "side"
    return "retry" if topic.rpartition("/")[2].startswith("retry-") else "shared"


# ----------------------------------------------------------------- tiers in pools


def _tiers(backlog: BacklogState, settings: Globals) -> list[Row]:
    ready = [task.view for task in backlog.tasks if _may_be_sent(task.view, settings)]
    return [row for pool in (TOTAL, *settings.caps) for row in _pool(pool, backlog, settings, ready)]


def _may_be_sent(task: TaskView, settings: Globals) -> bool:
    return task.state == "running" and task.targets.pending > 0 and not held_now(task, settings)


def _pool(pool: str, read: BacklogState, settings: Globals, ready: Iterable[TaskView]) -> list[Row]:
    total = pool == TOTAL
    backlog = dict.fromkeys(map(str, TIERS), 0)
    for task in ready:
        if total or pool in settings.pools_of(task.app, task.channel):
            backlog[task.tier] += task.targets.pending
    wanted = wanted_shares(settings.tier_weights, backlog)
    rates = tier_rates(read.beats)
    stored = read.pools.get(pool, {})
    cap = (settings.capacity, settings.burst) if total else settings.cap(pool)
    return [
        {
            "pool": pool,
            "tier": tier,
            "cap": cap[0],
            "cap_burst": cap[1],
            "weight": settings.tier_weights[tier],
            "busy": sum(stored.get(f"{work}busy:{tier}", 0) for work in ("", "retry_")) / MILLI,
            "waiting": sum(stored.get(f"{work}waiting:{tier}", 0) for work in ("", "retry_")) / MILLI,
            "bucket": stored.get(f"bucket:{tier}", 0) / BUCKET_UNIT,
            "depth": stored.get(f"depth:{tier}", 0) / BUCKET_UNIT,
            "announced": stored.get(f"wanted:{tier}", 0),
            "backlog": backlog[tier],
            "granted": read.counters.get(f"granted:{tier}", 0) if total else None,
            "rate": rates[tier] if total else None,
            "wanted": wanted[tier] or 0.0,
            "got": rates[tier] / (sum(rates.values()) or 1.0) if total else None,
        }
        for tier in map(str, TIERS)
    ]
