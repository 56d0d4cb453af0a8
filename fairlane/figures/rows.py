"""Rows for output: what the command line prints as JSON, and the HTTP API answers. Pure functions of domain objects."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:  # commands import this module before they know what they will print
    from dispatcher.analysis.what_if import FinishChange
    from dispatcher.model.view import TaskView, WorkerBeat
    from fairlane.figures.signals import Signals
    from producers.control.steering import Plan
    from producers.submit.preview import Preview
    from producers.submit.report import SubmitResult

FAILURE_FIELDS = ("task", "target", "outcome", "reason", "attempt", "channel", "at_ms")
OUTCOME_FIELDS = (*FAILURE_FIELDS, "writer", "sequence", "position", "provider_id")
REASON_FIELDS = ("outcome", "reason", "count", "example", "first_ms", "last_ms")
GROUP_FIELDS = ("task", "app", "channel", "state", "replay", *REASON_FIELDS)
INVALID_FIELDS = ("app", "channel", "target", "reason", "died_ms", "at_ms", "task")
ACCEPTED_FIELDS = ("created_ms", "accepted", "refused", "refusals", "stopped")
EVENT_FIELDS = ("id", "state", "targets", "rate", "eta_s")
SUBMITTED_FIELDS = ("accepted", "refused", "duplicates", "envelopes", "stopped", "seconds")
MOVED_FIELDS = ("app", "tier", "pending", "eta_s", "eta_after_s")
BULK_FIELDS = ("changed", "unchanged", "failed")
WORKER_FIELDS = ("id", "state", "host", "pid", "version", "lanes", "in_flight", "buffered", "rate")
SIGNAL_FIELDS = ("capacity", "rate", "workers", "workers_needed", "limited_by", "caps")


def picked(item: Any, fields: Sequence[str]) -> dict[str, Any]:
    """Return these fields of an item."""
    return {name: getattr(item, name) for name in fields}


def fields_of(items: Iterable[Any], fields: Sequence[str]) -> list[dict[str, Any]]:
    """Return these fields of each item."""
    return [picked(item, fields) for item in items]


def task_fields(view: "TaskView") -> dict[str, Any]:
    """Return a task: the fields of dispatcher.model.view.TaskView under their names."""
    fields: dict[str, Any] = msgspec.to_builtins(view)
    return fields


def submission_fields(result: "SubmitResult", *, counts_duplicates: bool) -> dict[str, Any]:
    """Return the result of a submission. counts_duplicates: whether all of its duplicates were counted."""
    fields = {"id": result.task, **picked(result, SUBMITTED_FIELDS), "seconds": round(result.seconds, 3)}
    return fields if counts_duplicates else fields | {"duplicates": None}


def preview_fields(made: "Preview") -> dict[str, Any]:
    """Return what a submission would accept, and the requests that would leave."""
    fields = submission_fields(made.result, counts_duplicates=True)
    return fields | {"languages": made.languages, "requests": [request._asdict() for request in made.requests]}


def effects_fields(changed: "Sequence[FinishChange]", count: int, limit: int | None) -> dict[str, Any]:
    """Return the most affected tasks: their finish times before and after. count: of all live tasks."""
    rows = [effect_fields(effect) for effect in changed[:limit]]
    return {"affected": len(changed), "unaffected": count - len(changed), "tasks": rows}


def effect_fields(effect: "FinishChange") -> dict[str, Any]:
    """Return the effect of a change on one task."""
    return {"id": effect.task, **_rounded(picked(effect, MOVED_FIELDS), 1)}


def plan_fields(plan: "Plan") -> dict[str, Any]:
    """Return what a change of many tasks would change."""
    changes = [{"id": step.task.id, "changes": step.changes} for step in plan.steps]
    return {"changes": changes, "refused": dict(plan.refused)}


def worker_fields(beat: "WorkerBeat", now_ms: int) -> dict[str, Any]:
    """Return one worker; granted and sent count targets since it started."""
    return {
        **_rounded(picked(beat, WORKER_FIELDS), 1),
        "sent": sum(stats.sent for stats in beat.tiers.values()),
        "tiers": {tier: picked(stats, ("granted", "sent")) for tier, stats in beat.tiers.items()},
        "metrics_port": beat.metrics_port or None,
        "uptime_s": round((beat.seen_ms - beat.started_ms) / 1000, 1),
        "seen_s_ago": round(max(0, now_ms - beat.seen_ms) / 1000, 1),
    }


def signal_fields(measured: "Signals") -> dict[str, Any]:
    """Return the signals of the whole service; those of tiers are under `tiers`, by name."""
    return {
        **_rounded(picked(measured, SIGNAL_FIELDS), 1),
        "missing_channels": [waiting._asdict() for waiting in measured.missing],
        "tiers": {tier.tier: _rounded(tier._asdict(), 3) for tier in measured.tiers},
    }


def _rounded(fields: dict[str, Any], digits: int) -> dict[str, Any]:
    return {name: round(value, digits) if isinstance(value, float) else value for name, value in fields.items()}
