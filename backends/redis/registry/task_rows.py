"""Typed values of the scripts' answers about tasks. The scripts derive a task's state, by Redis' time."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from sys import intern
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from dispatcher.analysis.failing import fails_by
from dispatcher.analysis.send_errors import CAP_TEXT, SendError
from dispatcher.analysis.served import Served
from dispatcher.analysis.task_times import Counted, Switch, TimeSpan, counted_of, switches_of
from dispatcher.model.pools import NO_CAP, Cap
from dispatcher.model.task_control import edited_message, edits_of
from dispatcher.model.tier import MILLI
from dispatcher.model.view import ENDED_STATES, Globals, TargetCounts, TaskView
from dispatcher.wire.control import (
    FORMAT,
    MAIN_WRITER,
    Announced,
    Checkpoint,
    Sealed,
    TakenOver,
    TaskRecord,
    decode_control,
)
from dispatcher.wire.envelope import decode_message
from dispatcher.wire.submission import Submission

STATE_FIELDS = ("ended", "cancelled", "expires_ms", "paused", "start_ms", "lane", "app", "tier", "stopped")
"""First fields of every row: the scripts need them themselves."""
LIVE_FIELDS = (
    *STATE_FIELDS, "shared", "weight", "chunk", "channel", "sealed", "published", "finals", "hold", "total", "cap",
    "claims", "override", "expected", "partitions",
)  # fmt: skip
VIEW_FIELDS = (
    *LIVE_FIELDS, "cancelled_n", "sent", "invalid", "failed", "expired", "rate", "rate_ms", "refused", "sealed_refused",
    "created_ms", "first_outcome_ms", "finished_ms", "reason", "sealed_pos", "closed",
    "error", "errors", "error_ms", "error_attempt", "retry_ms", "unsent", "unsent_ms", "unsent_reason",
    "close", "why_ms", "first", "paused_pos", "lacking",
)  # fmt: skip
MARKED_FIELDS = (
    "cancelled", "stopped", "paused", "tier", "weight", "cap", "sealed", "published", "finals", "rate_ms", "retry_ms",
)  # fmt: skip
"""The fields of VIEW_FIELDS that tell whether a task has changed."""
SUBMISSION_FIELDS = (
    *STATE_FIELDS, "record", f"ckpt:{MAIN_WRITER}", "sealed", "total", "sealed_refused", "sealed_digest", "sealed_pos",
    "writers", "finals", "shared", "override", "override_pos", "record_pos", "submission",
)  # fmt: skip
MESSAGE_FIELDS = (*STATE_FIELDS, "record", "override")
LACKING_MS = 60_000
"""How long an envelope that lacks an open target waits before it is reported."""
LACKING_SEEN_MS = 15_000
"""Workers ask for a waiting envelope again within this time."""
RATE_STALE_MS = 3_000
"""A rate measured longer ago than this counts as 0."""

T = TypeVar("T")
Value = bytes | None
_decode_entries = msgspec.msgpack.Decoder(list[tuple[str, Announced | TakenOver]]).decode
STUCK_MS = 900_000
"""A task without progress for longer than this is stuck. A task waits at most 600 s for its next attempt."""
SILENT_MS = 600_000
"""A task that workers send for this time without an outcome is silent: an answer takes two minutes at most."""


class LiveTask(NamedTuple):
    """A task that has not ended, with the fields that workers need. Fields *_ms are wall times, 0 for none."""

    id: str
    state: str
    app: str
    tier: str
    weight: int
    """In thousandths."""
    cap: int
    """In targets/s; 0 for none."""
    channel: str
    lane: str
    shared: bool
    chunk: int
    hold: bool
    start_ms: int
    expires_ms: int
    sealed: bool
    published: int
    """Number of targets known to be in its lane."""
    total: int
    """Known once the task is sealed."""
    finals: int
    """Number of targets with an outcome."""
    claims: int
    """Number of claims in force."""
    cancelled: bool
    """Whether a cancel was requested, in any state."""
    override: bytes = b""
    """The edited message, the text of an Override; empty if it was never edited."""
    expected: int = -1
    """Expected number of targets; -1 if not known."""
    partitions: int = 0
    """Partitions of its own lane; 0 for a plain topic."""

    @property
    def on_hold(self) -> bool:
        """Whether its state, or a hold until its seal, keeps it from being sent at any time."""
        return self.state not in ("running", "scheduled") or (self.hold and not self.sealed)

    @property
    def pending(self) -> int:
        """Number of targets known to be in its lane that have no outcome."""
        return max(0, (self.total if self.sealed else self.published) - self.finals)


class IdleTask(NamedTuple):
    """A task that has not ended, and how long it has been idle."""

    task: TaskView
    idle_ms: int
    """Time since the last of these: it was accepted, started or expired, a worker requested a lease for it, its next
    attempt was due, or a target got an outcome."""
    lacking: str = ""
    """An envelope that has waited for a minute because it lacks an open target: writer, sequence and round."""
    silent_ms: int = 0
    """Time since it was accepted, started, or a target got an outcome, while workers have targets of it or its tries
    fail; 0 if neither is so."""

    def is_stuck(self, served: Served, settings: Globals, after_ms: int = STUCK_MS) -> bool:
        """Return whether nothing has happened to the task for `after_ms`, though workers may send it."""
        task = self.task
        if not served.workers or self.idle_ms < after_ms or task.targets.pending <= 0:
            return False
        may_be_sent = not settings.stops(task.channel, task.app) and not served.lacks(task.channel)
        return task.state in ENDED_STATES or (task.state == "running" and task.sealed and may_be_sent)

    def is_silent(self, settings: Globals) -> bool:
        """Return whether workers have sent the task for SILENT_MS without an outcome, and neither a pause nor a cap
        explains it."""
        task, error = self.task, self.task.last_error
        is_capped = error is not None and error.last_reason == CAP_TEXT
        return self.silent_ms >= SILENT_MS and not (is_capped or settings.stops(task.channel, task.app))


class TaskTimes(NamedTuple):
    """A task, and what is known of its time so far."""

    task: TaskView
    counted: Counted
    """By cause, as the ledger counted it."""
    pauses: list[Switch]
    """When it was paused and resumed."""


class TaskRow(msgspec.Struct, frozen=True):
    """One task's fields by name; absent ones read as 0 or ''."""

    id: str
    state: str
    values: dict[str, Value]

    def text(self, field: str) -> str:
        return (self.values[field] or b"").decode()

    def number(self, field: str) -> int:
        return int(self.values[field] or 0)

    def decimal(self, field: str) -> float:
        return float(self.values[field] or 0)

    def flag(self, field: str) -> bool:
        return self.values[field] == b"1"


def row_of(answer: Sequence[object], fields: Sequence[str]) -> TaskRow:
    """Parse a row {id, state, {value...}} of a script's answer."""
    task, state, values = answer
    assert isinstance(task, bytes)
    assert isinstance(state, bytes)
    assert isinstance(values, list)
    return TaskRow(task.decode(), state.decode(), dict(zip(fields, values, strict=True)))


def live_task(answer: tuple[bytes, bytes, Sequence[Value]]) -> LiveTask:
    """Parse a row with LIVE_FIELDS, by position for speed: every reconcile does it for thousands of tasks, and keywords
    cost 1.5 us more than the 2.5 us of a row."""
    task, state, values = answer
    (
        _, cancelled, expires_ms, _, start_ms, lane, app, tier, _, shared, weight, chunk, channel, sealed, published,
        finals, hold, total, cap, claims, override, expected, partitions,
    ) = values  # fmt: skip
    return LiveTask(
        task.decode(), state.decode(), _text(app), _text(tier), _number(weight), _rate(cap), _text(channel),
        _text(lane), shared == b"1", int(chunk or 0), hold == b"1", int(start_ms or 0), int(expires_ms or 0),
        sealed == b"1", int(published or 0), int(total or 0), int(finals or 0), int(claims or 0), cancelled == b"1",
        override or b"", int(expected or -1), int(partitions or 0),
    )  # fmt: skip


def _number(value: Value) -> int:
    """Return the number, or 0 if it is missing."""
    return int(value or 0)


def _rate(cap: Value) -> int:
    """Return the rate of a stored cap, without its burst."""
    return _number((cap or b"0").partition(b":")[0])


def _text(value: Value) -> str:
    return value.decode() if value else ""


def target_counts(row: TaskRow) -> TargetCounts:
    """Return the counts of a task's targets. The total is the sum of the outcomes once the task has ended, and the
    number of published targets before the seal. A seal that came after the close may name fewer than have outcomes."""
    finals = row.number("finals")
    total = finals
    if not row.text("ended"):
        total = max(finals, row.number("total" if row.flag("sealed") else "published"))
    return TargetCounts(
        total=total,
        sent=row.number("sent"),
        invalid=row.number("invalid"),
        failed=row.number("failed"),
        expired=row.number("expired"),
        cancelled=row.number("cancelled_n"),
        pending=total - finals,
    )


def task_view(row: TaskRow, now_ms: int) -> TaskView:
    """Parse a row that was read with the fields VIEW_FIELDS. A live task has no eta_s yet
    (producers/control/foresight.py adds it)."""
    targets, cap = target_counts(row), Cap.parse(row.text("cap")) if row.values["cap"] else NO_CAP
    # A task closed without a seal has the flag too (its total is the number of published targets), but no seal.
    sealed, closed = row.flag("sealed"), row.flag("closed")
    sealed = sealed and not (closed and not row.text("sealed_pos"))
    state = "failed" if row.text("close") and not row.text("ended") else row.state
    rate = row.decimal("rate") if now_ms - row.number("rate_ms") <= RATE_STALE_MS and targets.pending else 0.0
    return TaskView(
        id=row.id,
        app=intern(row.text("app")),  # the board holds all tasks, and each of these texts once
        tier=intern(row.text("tier")),
        channel=intern(row.text("channel")),
        state=intern(state),
        sealed=sealed,
        weight=row.number("weight") / MILLI,
        cap=cap.rate,
        targets=targets,
        rate=rate,
        eta_s=0.0 if row.text("ended") else None,
        refused=row.number("sealed_refused" if sealed else "refused"),
        lane=row.text("lane"),
        shared=row.flag("shared"),
        chunk=row.number("chunk"),
        expected_targets=row.number("expected"),
        created_ms=row.number("created_ms"),
        start_ms=row.number("start_ms"),
        expires_ms=row.number("expires_ms"),
        first_outcome_ms=row.number("first_outcome_ms"),
        finished_ms=row.number("finished_ms"),
        hold_until_sealed=row.flag("hold"),
        cap_burst=cap.burst,
        partitions=row.number("partitions"),
        reason=(row.text("reason") or row.text("close") or row.text("stopped")) if state == "failed" else "",
        closed=closed,
        last_error=_last_error(row),
        first=row.number("first"),
        waits_for_go=state == "paused" and row.number("first") > 0 and not row.text("paused_pos"),
        last_outcome_ms=row.number("rate_ms"),
    )


def mark_of(values: Iterable[Value]) -> int:
    """Return a number that differs once one of MARKED_FIELDS has changed."""
    return hash(tuple(values))


def marked_view(row: TaskRow, now_ms: int) -> tuple[TaskView, int]:
    """Parse a row that was read with the fields VIEW_FIELDS, and return its mark with it."""
    return task_view(row, now_ms), mark_of(map(row.values.__getitem__, MARKED_FIELDS))


def task_times(row: TaskRow, now_ms: int) -> TaskTimes:
    """Parse a row that was read with the fields of TASK_TIMES."""
    counted = Counted(counted_of(row.text("why")), TimeSpan(row.number("why_from"), row.number("why_ms")))
    return TaskTimes(task_view(row, now_ms), counted, switches_of(row.text("pauses")))


def idle_task(row: TaskRow, now_ms: int) -> IdleTask:
    """Parse a row that was read with the fields VIEW_FIELDS."""
    last_ms = max(row.number(name) for name in ("created_ms", "start_ms", "rate_ms", "why_ms", "retry_ms"))
    expires_ms = row.number("expires_ms")
    if expires_ms <= now_ms:
        last_ms = max(last_ms, expires_ms)
    task = task_view(row, now_ms)
    is_tried = task.state == "running" and task.targets.pending > 0 and row.number("claims") > 0
    outcome_ms = max(task.created_ms, task.start_ms, task.last_outcome_ms)
    silent_ms = now_ms - outcome_ms if is_tried or fails_by(task, now_ms) else 0
    return IdleTask(task, max(0, now_ms - last_ms), _lacking(row.text("lacking"), now_ms), max(0, silent_ms))


def _lacking(noted: str, now_ms: int) -> str:
    """Return the envelope that quotas/lua/lease/statuses.lua noted, if it still waits and has done so for long. A
    shorter time is normal: the fold has yet to read a record."""
    name, _, times = noted.partition(" ")
    since_ms, _, until_ms = times.partition(" ")
    waits = name and int(until_ms) >= now_ms - LACKING_SEEN_MS and int(until_ms) - int(since_ms) >= LACKING_MS
    return name if waits else ""


def _last_error(row: TaskRow) -> SendError | None:
    if not row.number("error_ms") and not row.number("unsent_ms"):
        return None
    return SendError(
        row.text("error"),
        row.number("errors"),
        row.number("error_ms"),
        row.number("error_attempt"),
        row.number("retry_ms"),
        row.number("unsent"),
        row.number("unsent_ms"),
        row.text("unsent_reason"),
    )


def entries_of(packed: Value) -> list[tuple[str, Announced | TakenOver]]:
    """Return positions and records in the topic's order, as backends/redis/lua/registry/apply_submission.lua keeps
    them."""
    return _decode_entries(packed) if packed else []


def submission_of(row: TaskRow) -> Submission:
    """Parse a row with SUBMISSION_FIELDS."""
    record = decode_control(row.values["record"] or b"")
    assert isinstance(record, TaskRecord)
    stored = row.values[f"ckpt:{MAIN_WRITER}"]
    checkpoint = decode_control(stored) if stored else None
    assert checkpoint is None or isinstance(checkpoint, Checkpoint)
    seal = None
    if row.values["sealed_pos"]:
        seal = Sealed(
            format=FORMAT,
            task=row.id,
            targets=row.number("total"),
            refused=row.number("sealed_refused"),
            digest=row.text("sealed_digest"),
            writers=row.text("writers").split(","),
        )
    return Submission(
        record=record,
        position=row.text("record_pos"),
        lane=row.text("lane") or record.lane,
        shared=row.flag("shared"),
        state=row.state,
        ended=bool(row.text("ended")),
        checkpoint=checkpoint,
        seal=seal,
        edits=edits_of(row.text("override")),
        edited_at=row.text("override_pos"),
        entries=dict(entries_of(row.values["submission"])),
    )


def message_of(row: TaskRow) -> dict[str, Any]:
    """Return a task's present message from a row with MESSAGE_FIELDS; empty for a task that has ended."""
    edited = edited_message(row.values["override"] or b"") if row.values["override"] else b""
    if edited:
        return decode_message(msgspec.Raw(edited))
    record = decode_control(row.values["record"] or b"")
    assert isinstance(record, TaskRecord)
    return decode_message(record.message) or {}


@dataclass(frozen=True, slots=True)
class RowShape(Generic[T]):
    """The fields that a reader of tasks needs, and the value that is made of them."""

    fields: tuple[str, ...]
    parse: Callable[[Any, int], T]
    """Makes the value of a script's row at Redis' time (ms)."""


def _rows_with(fields: tuple[str, ...], make: Callable[[TaskRow, int], T]) -> RowShape[T]:
    return RowShape(fields, lambda answer, now_ms: make(row_of(answer, fields), now_ms))


LIVE_TASK = RowShape(LIVE_FIELDS, lambda answer, _: live_task(answer))
TASK_VIEW = _rows_with(VIEW_FIELDS, task_view)
MARKED_VIEW = _rows_with(VIEW_FIELDS, marked_view)
IDLE_TASK = _rows_with(VIEW_FIELDS, idle_task)
TASK_TIMES = _rows_with((*VIEW_FIELDS, "why", "why_from", "pauses"), task_times)
TASK_AND_MESSAGE = _rows_with((*VIEW_FIELDS, "record"), lambda row, now_ms: (task_view(row, now_ms), message_of(row)))
TASK_MESSAGE = _rows_with(MESSAGE_FIELDS, lambda row, _: message_of(row))
SUBMISSION = _rows_with(SUBMISSION_FIELDS, lambda row, _: submission_of(row))
