"""Rows for output: what the command line prints as JSON, and the HTTP API answers. Pure functions of domain objects."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:  # commands import this module before they know what they will print
    from dispatcher.analysis.what_if import FinishChange
    from dispatcher.model.view import TaskView, WorkerBeat
    from fairlane.figures.signals import Signals
    from producers.control.access_control import KeyState
    from producers.control.steering import BulkResult, Plan
    from producers.submit.preview import Preview
    from producers.submit.report import SubmitResult

FAILURE_FIELDS = ("task", "target", "outcome", "reason", "attempt", "channel", "at_ms")
OUTCOME_FIELDS = (*FAILURE_FIELDS, "writer", "sequence", "position", "provider_id")
REASON_FIELDS = ("outcome", "reason", "count", "example", "first_ms", "last_ms")
GROUP_FIELDS = ("task", "app", "channel", "state", "replay", *REASON_FIELDS)
INVALID_FIELDS = ("app", "channel", "target", "reason", "died_ms", "at_ms", "task")


def fields_of(items: Iterable[Any], fields: Sequence[str]) -> list[dict[str, Any]]:
    """Return these fields of each item."""
    return [{name: getattr(item, name) for name in fields} for item in items]


def task_fields(view: "TaskView") -> dict[str, Any]:
    """Return a task: the fields of dispatcher.model.view.TaskView under their names."""
    fields: dict[str, Any] = msgspec.to_builtins(view)
    return fields


def submission_fields(result: "SubmitResult", *, counts_duplicates: bool) -> dict[str, Any]:
    """Return the result of a submission. counts_duplicates: whether all of its duplicates were counted."""
    return {
        "id": result.task,
        "accepted": result.accepted,
        "refused": result.refused,
        "duplicates": result.duplicates if counts_duplicates else None,
        "envelopes": result.envelopes,
        "stopped": result.stopped,
        "seconds": round(result.seconds, 3),
    }


def preview_fields(made: "Preview") -> dict[str, Any]:
    """Return what a submission would accept, and the requests that would leave."""
    return {
        **submission_fields(made.result, counts_duplicates=True),
        "languages": made.languages,
        "requests": [request._asdict() for request in made.requests],
    }


def effects_fields(changed: "Sequence[FinishChange]", count: int, limit: int | None) -> dict[str, Any]:
    """Return the most affected tasks: their finish times before and after. count: of all live tasks."""
    rows = [effect_fields(effect) for effect in changed[:limit]]
    return {"affected": len(changed), "unaffected": count - len(changed), "tasks": rows}


def effect_fields(effect: "FinishChange") -> dict[str, Any]:
    """Return the effect of a change on one task."""
    times = {"eta_s": effect.eta_s, "eta_after_s": effect.eta_after_s}
    return {
        "id": effect.task,
        "app": effect.app,
        "tier": effect.tier,
        "pending": effect.pending,
        **{name: None if seconds is None else round(seconds, 1) for name, seconds in times.items()},
    }


def plan_fields(plan: "Plan") -> dict[str, Any]:
    """Return what a change of many tasks would change."""
    changes = [{"id": step.task.id, "changes": step.changes} for step in plan.steps]
    return {"changes": changes, "refused": dict(plan.refused)}


def bulk_fields(result: "BulkResult") -> dict[str, Any]:
    """Return the result of a change of many tasks."""
    return {"changed": list(result.changed), "unchanged": result.unchanged, "failed": dict(result.failed)}


def worker_fields(beat: "WorkerBeat", now_ms: int) -> dict[str, Any]:
    """Return one worker; granted and sent count targets since it started."""
    return {
        "id": beat.id,
        "state": beat.state,
        "host": beat.host,
        "pid": beat.pid,
        "version": beat.version,
        "lanes": beat.lanes,
        "in_flight": beat.in_flight,
        "buffered": beat.buffered,
        "rate": round(beat.rate, 1),
        "sent": sum(stats.sent for stats in beat.tiers.values()),
        "tiers": {tier: {"granted": stats.granted, "sent": stats.sent} for tier, stats in beat.tiers.items()},
        "metrics_port": beat.metrics_port or None,
        "uptime_s": round((beat.seen_ms - beat.started_ms) / 1000, 1),
        "seen_s_ago": round(max(0, now_ms - beat.seen_ms) / 1000, 1),
    }


def signal_fields(measured: "Signals") -> dict[str, Any]:
    """Return the signals of the whole service; those of tiers are under `tiers`, by name."""
    rows = [
        {name: round(value, 3) if isinstance(value, float) else value for name, value in tier._asdict().items()}
        for tier in measured.tiers
    ]
    return {
        "capacity": measured.capacity,
        "rate": round(measured.rate, 1),
        "workers": measured.workers,
        "workers_needed": measured.workers_needed,
        "limited_by": measured.limited_by,
        "caps": measured.caps,
        "missing_channels": [waiting._asdict() for waiting in measured.missing],
        "tiers": {row["tier"]: row for row in rows},
    }


def usage_fields(usage: Any) -> dict[str, Any]:
    """Return the settings and work of a channel or an app (fairlane.figures.usage)."""
    return asdict(usage)


def key_fields(state: "KeyState") -> dict[str, Any]:
    """Return a key without its secret."""
    return {
        "id": state.id,
        "app": state.key.app,
        "scopes": sorted(state.key.scopes),
        "state": state.state,
        "created_ms": state.key.created_ms,
        "ends_ms": state.key.ends_ms,
        "used_ms": state.used_ms,
    }
