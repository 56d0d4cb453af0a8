"""The documents that routes answer with, as types for OpenAPI, made of the types of the service.

The functions that make the documents are in `fairlane/figures`; a test on real servers holds each answer to its type.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar, get_type_hints

import msgspec
from msgspec import UNSET, UnsetType

from backends.redis.registry.audit import AuditEntry
from dispatcher.access.app_policy import AppPolicy
from dispatcher.access.keys import AccessKey
from dispatcher.analysis.served import WaitingTasks
from dispatcher.analysis.what_if import FinishChange
from dispatcher.analysis.why import CauseShare, UnrecordedBy, Why
from dispatcher.model.view import TaskView, WorkerBeat
from fairlane.figures.rows import (
    ACCEPTED_FIELDS,
    BULK_FIELDS,
    EVENT_FIELDS,
    FAILURE_FIELDS,
    GROUP_FIELDS,
    INVALID_FIELDS,
    MOVED_FIELDS,
    OUTCOME_FIELDS,
    REASON_FIELDS,
    SIGNAL_FIELDS,
    SUBMITTED_FIELDS,
    WORKER_FIELDS,
)
from fairlane.figures.signals import Signals, TierSignals
from fairlane.figures.usage import AppUsage, ChannelUsage
from producers.control.access_control import KeyState
from producers.control.controls import Cancelled
from producers.control.steering import BulkResult
from producers.outcomes.record import ReasonGroup, TargetRecord
from producers.outcomes.replay import Replay
from producers.submit.preview import RequestPreview
from producers.submit.report import SubmitResult

T = TypeVar("T")


class FieldError(msgspec.Struct, kw_only=True):
    """A field of the request that is at fault."""

    pointer: str
    """JSON pointer into the body, such as `/targets/3/vars`; for a field of a query, `/NAME`."""
    detail: str


class Problem(msgspec.Struct, kw_only=True):
    """Why a request was not carried out (RFC 9457)."""

    type: str
    """Address of its kind in the reference (problems.md)."""
    title: str
    status: int
    detail: str
    """The cause."""
    next_step: str
    """The next step; empty if there is none."""
    errors: list[FieldError]
    request_id: str
    """Id of the request, as in the header X-Request-Id and in the server's log."""


class Rows(msgspec.Struct, Generic[T], kw_only=True):
    """A list, or its beginning."""

    rows: list[T]
    more: bool
    """Whether there are more than `limit`."""


class Tasks(msgspec.Struct, kw_only=True):
    """A page of tasks."""

    rows: list[TaskView]
    cursor: str | None
    """Names the next page; null: this is the last one."""
    counts: dict[str, dict[str, int]]
    """Numbers of live tasks by app, state, tier and channel."""
    as_of_ms: int | UnsetType = UNSET
    """Wall time up to which it is known which live tasks there are, and in which states."""
    age_s: float | UnsetType = UNSET
    """Seconds since then."""
    complete: bool | UnsetType = UNSET
    """Whether all live tasks were read since the server, or the view, began."""
    read: int | UnsetType = UNSET
    """Live tasks that were read."""
    total: int | UnsetType | None = UNSET
    """Live tasks that there are; null if that is not known."""


def fields_of(name: str, like: type = object, fields: Sequence[str] | None = None, **more: Any) -> Any:
    """Return the type of objects with fields of another type (all, or these), and with more.

    Their descriptions are those of `like`.
    """
    hints = get_type_hints(like)
    chosen = {field: hints[field] for field in (hints if fields is None else fields)} | more
    return msgspec.defstruct(name, list(chosen.items()), kw_only=True, namespace={"like": like})


def rows_of(name: str, like: type, fields: Sequence[str] | None = None, **more: Any) -> Any:
    """Return the type of lists of `fields_of`."""
    rows: Any = Rows
    return rows[fields_of(name, like, fields, **more)]


_list: Any = list
_dict: Any = dict
_CAUSE = fields_of("Cause", CauseShare, ["cause"], seconds=float, part=float, meaning=str, advice=str)
_MOVED = fields_of("MovedTask", FinishChange, MOVED_FIELDS, id=str)
_PLANNED = fields_of("PlannedChange", id=str, changes=dict[str, tuple[str, str]])
_SERVICE = fields_of("Service", capacity=int, capacity_burst=int, tiers=dict[str, float], sharing=str)
_CHANNEL = fields_of("Channel", ChannelUsage)
_APP = fields_of("App", AppUsage, policy=fields_of("AppPolicy", AppPolicy))

ANSWERS: Mapping[str, Any] = {
    "tasks.submit": fields_of(
        "SubmittedTask", SubmitResult, ACCEPTED_FIELDS, id=str, app=str, channel=str
    ),
    "tasks.preview": fields_of(
        "TaskPreviewed", SubmitResult, SUBMITTED_FIELDS,
        id=str, languages=dict[str, int], requests=_list[fields_of("PreviewedRequest", RequestPreview)],
    ),
    "tasks.list": Tasks,
    "tasks.show": fields_of("Task", TaskView, message=dict[str, Any]),
    "tasks.set": fields_of("ChangedTask", TaskView, edit=int | None),
    "tasks.cancel": fields_of("CancelledTask", Cancelled, id=str),
    "tasks.why": fields_of(
        "Why", Why, ["state", "now", "last_error", "waits_for_go"],
        id=str, age_s=float, unrecorded=_list[fields_of("UnrecordedBy", UnrecordedBy)], parts=_list[_CAUSE],
    ),
    "tasks.failures": (
        rows_of("Failure", TargetRecord, FAILURE_FIELDS), rows_of("Reason", ReasonGroup, REASON_FIELDS)
    ),
    "tasks.events": fields_of("TaskEvent", TaskView, EVENT_FIELDS),
    "tasks.outcomes": rows_of("Outcome", TargetRecord, OUTCOME_FIELDS),
    "tasks.change": (
        fields_of("ChangedTasks", BulkResult, BULK_FIELDS),
        fields_of(
            "PlannedChanges",
            changes=_list[_PLANNED], refused=dict[str, str], affected=_list[_MOVED], affects_others=bool,
        ),
    ),
    "letters.list": rows_of("LetterGroup", ReasonGroup, GROUP_FIELDS),
    "letters.replay": fields_of("Replays", replays=_list[fields_of("Replay", Replay)]),
    "letters.drop": fields_of("Dropped", dropped=int),
    "invalid.list": rows_of("InvalidTarget", TargetRecord, INVALID_FIELDS),
    "service.show": _SERVICE,
    "service.set": _SERVICE,
    "channel.show": _CHANNEL,
    "channel.set": (_CHANNEL, fields_of("AppOnChannel", channel=str, app=str)),
    "app.show": _APP,
    "app.set": _APP,
    "workers.list": rows_of(
        "Worker", WorkerBeat, WORKER_FIELDS,
        sent=int, tiers=dict[str, dict[str, int]], metrics_port=int | None, uptime_s=float, seen_s_ago=float,
    ),
    "signals.show": fields_of(
        "Signals", Signals, SIGNAL_FIELDS,
        missing_channels=_list[fields_of("MissingChannel", WaitingTasks)],
        tiers=_dict[str, fields_of("TierSignals", TierSignals)],
    ),
    "keys.list": rows_of("Key", KeyState),
    "keys.create": fields_of("CreatedKey", AccessKey, ["app", "ends_ms"], key=str, id=str, scopes=list[str]),
    "keys.revoke": fields_of("RevokedKey", id=str, revoked_ms=int),
    "audit.list": rows_of("AuditEntry", AuditEntry),
}  # fmt: skip
"""The type of a route's document, or a tuple of several, by the route's action."""
