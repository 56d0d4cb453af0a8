"""Builds the row of one snapshot of the backlog; spark_jobs.backlog.snapshot_files describes its columns."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from backends.pulsar.broker_lanes import BrokerAnswer, answered_lanes
from backends.pulsar.lane_stats import LaneStats
from backends.redis.backlog import BacklogState, BacklogTask, ClaimedTargets
from backends.redis.keys import BUCKET_UNIT
from dispatcher.analysis.rates import tier_rates
from dispatcher.analysis.why import held_now
from dispatcher.model.pools import TOTAL
from dispatcher.model.service_settings import globals_of
from dispatcher.model.tier import MILLI, TIERS
from dispatcher.model.view import Globals, TaskView, WorkerBeat
from dispatcher.wire.topics import side_of_lane, task_of_lane
from fairlane.figures.signals import wanted_shares

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
    settings = globals_of(backlog.settings, backlog.at_ms)
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
        "brokers": [{"broker": b.broker, "answered": b.lanes is not None, "failure": b.failure} for b in brokers],
        "workers": list(map(_worker, backlog.beats)),
        "tiers": _tiers(backlog, settings),
        "tasks": [_task(task, backlog.in_flight, settings) for task in backlog.tasks],
        "ended": [_task(task, backlog.in_flight, settings) for task in backlog.ended],
        "lanes": [_lane(broker, lane) for broker, lane in answered_lanes(brokers)],
    }


def _task(task: BacklogTask, in_flight: ClaimedTargets, settings: Globals) -> Row:
    view = task.view
    targets = view.targets
    flying = min(in_flight.targets.get(view.id, 0), targets.pending)
    return {
        "task": view.id,
        "app": view.app,
        "tier": view.tier,
        "channel": view.channel,
        "state": view.state,
        "held": held_now(view, settings),
        "lane": view.lane,
        "shared": view.shared,
        "sealed": view.sealed,
        "created_ms": view.created_ms,
        "start_ms": view.start_ms,
        "expires_ms": view.expires_ms,
        "finished_ms": view.finished_ms,
        "expected": view.expected_targets,
        "published": targets.total,
        "sent": targets.sent,
        "invalid": targets.invalid,
        "failed": targets.failed,
        "expired": targets.expired,
        "cancelled": targets.cancelled,
        "queued": targets.pending - flying,
        "in_flight": flying if in_flight.known else None,
        "claims": task.claims,
        "retrying": task.open,
        "weight": view.weight,
        "rate": view.rate,
        "cap": view.cap,
        "cap_burst": view.cap_burst,
        "causes": list(task.why.items()),
    }


def _worker(beat: WorkerBeat) -> Row:
    return {
        "worker": beat.id,
        "host": beat.host,
        "state": beat.state,
        "lanes": beat.lanes,
        "in_flight": beat.in_flight,
        "buffered": beat.buffered,
        "rate": beat.rate,
    }


def _lane(broker: str, lane: LaneStats) -> Row:
    return {
        "lane": lane.topic,
        "kind": kind_of_lane(lane.topic),
        "broker": broker,
        "partition": lane.partition,
        "backlog": lane.backlog,
        "unacked": lane.unacked,
        "consumers": lane.consumers,
        "producers": lane.producers,
        "storage_bytes": lane.storage_bytes,
        "rate_in": lane.rate_in,
        "rate_out": lane.rate_out,
        "blocked": lane.blocked,
    }


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
