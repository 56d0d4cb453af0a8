"""The registry in Redis: tasks and their controls, folded from the control topic, which is the source of truth."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from backends.redis.record_calls import Call, call_of, sealed_call, task_call
from backends.redis.task_rows import (
    LIVE_FIELDS,
    STATE_FIELDS,
    SUBMISSION_FIELDS,
    VIEW_FIELDS,
    EndedTask,
    IdleTask,
    LivePage,
    LiveTask,
    RegistryState,
    ended_task,
    idle_task,
    live_task,
    row_of,
    submission_of,
    task_view,
)
from backends.redis.view import RedisView
from dispatcher.analysis.why import Counted, Switch, TimeSpan, counted_of, switches_of
from dispatcher.model.errors import InvalidInput
from dispatcher.model.view import (
    ENDED_STATES,
    Admission,
    Globals,
    HoldAction,
    InFlight,
    SubmitLease,
    TaskView,
    globals_of,
)
from dispatcher.wire.control import (
    MAIN_WRITER,
    Checkpoint,
    ControlRecord,
    Sealed,
    TaskRecord,
    decode_control,
)
from dispatcher.wire.submission import Submission

T = TypeVar("T")
_encode = msgspec.msgpack.Encoder().encode
_PAGE = 1_000
"""Maximum number of tasks that one script looks at, so that it blocks Redis for a few ms only."""
_SWEPT = 200
"""The same limit for scripts that run repeatedly over all live tasks."""
_RESERVED_MS = 10_000
_ENDED_FIELDS = (*STATE_FIELDS, "shared", "finished_ms")


class Registry:
    """Tasks, controls and the settings of the whole service. All methods raise Unreachable when Redis is gone."""

    def __init__(self, view: RedisView) -> None:
        self._view = view
        self._keys = view.keys

    # ------------------------------------------------------------- the fold of the control topic

    def apply(self, position: str, record: ControlRecord) -> None:
        """Apply a record of the control topic, stored there at `position`, in one round trip.

        Records may come in any order and any number of times: the resulting view is the same. For a restated record,
        apply the original. A seal counts once the cursor has reached it.
        """
        self.apply_all([(position, record)])

    def apply_all(self, records: Sequence[tuple[str, ControlRecord]]) -> None:
        """Apply many (position, record) as `apply` does, in one round trip."""
        self._view.call_many([call for position, record in records if (call := call_of(position, record))])

    def control_cursor(self) -> str | None:
        """Return the position up to which the control topic has been applied; None if nothing has been."""
        cursor = self._view.command("HGET", self._keys.control, "cursor")
        return cursor.decode() if cursor else None

    def move_control_cursor(self, expected: str | None, to: str, epoch: str, *, marked: bool) -> bool:
        """Move the cursor. Return False and change nothing if it is not at `expected` or the view has another epoch.

        marked: the epoch's mark has been read, so the view is complete as far as the control topic goes.
        """
        return bool(self._view.call("move_cursor", expected or "", to, epoch, int(marked)))

    def complete_among(self, tasks: Sequence[str]) -> list[str]:
        """Return those of these tasks that have an outcome for every target but no end written yet; none while the view
        is not ready."""
        return [task.decode() for task in self._view.call("complete_among", *tasks)] if tasks else []

    # ------------------------------------------------------------- tasks

    def task(self, task: str) -> TaskView | None:
        """Return a task, or None if it is not known or its tombstone has expired."""
        return next(iter(self.tasks_by_id([task])), None)

    def tasks_by_id(self, tasks: Sequence[str]) -> list[TaskView]:
        """Return the known tasks among these."""
        now_ms, *rows = self._view.call("read_tasks", len(VIEW_FIELDS), *VIEW_FIELDS, *tasks)
        return self._views((now_ms, row) for row in rows)

    def tasks(
        self,
        state: str | None = None,
        app: str | None = None,
        tier: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
        channel: str | None = None,
        id_prefix: str | None = None,
    ) -> tuple[list[TaskView], str | None]:
        """Return one page, newest first, and the cursor of the next page (None: there is none). Redis does the
        filtering."""
        listed = "index" if state is None or state in ENDED_STATES else "tasks"
        wanted = {"state": state, "app": app, "tier": tier, "channel": channel, "id": id_prefix}
        only = {name: value for name, value in wanted.items() if value}
        found: list[TaskView] = []
        while True:
            now_ms, rows, cursor = self._page(listed, only, limit - len(found), cursor, VIEW_FIELDS)
            found.extend(self._views((now_ms, row) for row in rows))
            if cursor is None or len(found) >= limit:
                return found, cursor

    def live(self) -> list[LiveTask]:
        """Return all tasks that have not ended, with the fields that workers need."""
        return [live_task(row) for _, row in self._live_rows(LIVE_FIELDS)]

    def live_page(self, cursor: str | None, size: int) -> LivePage:
        """Return a page of the tasks that have not ended, newest first, from a cursor (None: from the first). Over all
        pages, a task that moved meanwhile may be missing, and a task may come twice."""
        now_ms, rows, cursor = self._page("tasks", {}, size, cursor, LIVE_FIELDS)
        return LivePage(now_ms, [live_task(row) for row in rows], cursor)

    def look(self) -> RegistryState:
        """Return the registry state that a worker watches, in one call."""
        now_ms, version, sides, paused = self._view.call("look")
        return RegistryState(now_ms, version, _names(sides), _names(paused))

    def side_lanes(self) -> frozenset[str]:
        """Return the topics of side lanes that may hold envelopes."""
        return _names(self._view.command("SMEMBERS", self._keys.sides))

    def add_side_lane(self, topic: str) -> None:
        """Add a side lane; workers attach to it from now on."""
        self._view.command("SADD", self._keys.sides, topic)

    def drop_side_lane(self, topic: str) -> None:
        """Remove a side lane; workers detach from it."""
        self._view.command("SREM", self._keys.sides, topic)

    def ends(self, tasks: Sequence[str]) -> dict[str, bool]:
        """Return whether each known task among these has ended."""
        _, *rows = self._view.call("read_tasks", len(STATE_FIELDS), *STATE_FIELDS, *tasks)
        return {task.decode(): bool(values[0]) for task, _, values in rows}

    def ended_since(self, at_ms: int) -> list[str]:
        """Return the ids of tasks that ended at that time or later."""
        return [task.decode() for task in self._view.command("ZRANGEBYSCORE", self._keys.ended, at_ms, "+inf")]

    def tombstones(self, tasks: Sequence[str]) -> list[EndedTask]:
        """Return the tombstones of those of these tasks that have ended."""
        _, *rows = self._view.call("read_tasks", len(_ENDED_FIELDS), *_ENDED_FIELDS, *tasks)
        return [ended_task(row_of(row, _ENDED_FIELDS)) for row in rows if row[2][0]]

    def live_views(self) -> list[TaskView]:
        """Return all tasks that have not ended, newest first."""
        return self._views(self._live_rows(VIEW_FIELDS))

    def idle_tasks(self) -> list[IdleTask]:
        """Return all tasks that have not ended, each with the time since anything happened to it."""
        rows = ((now_ms, row_of(row, VIEW_FIELDS)) for now_ms, row in self._live_rows(VIEW_FIELDS))
        return [idle_task(row, now_ms) for now_ms, row in rows]

    def live_by_id(self, tasks: Sequence[str]) -> list[LiveTask]:
        """Return those of the named tasks that have not ended. Called after a change was announced."""
        _, *rows = self._view.call("read_tasks", len(LIVE_FIELDS), *LIVE_FIELDS, *tasks)
        return [live_task(row) for row in rows if not row[2][0]]

    def complete(self) -> list[str]:
        """Return tasks that are sealed and have an outcome for every target but no tombstone; none while the view is
        not ready."""
        found: list[str] = []
        first = 0
        while True:
            looked_at, *complete = self._view.call("complete_tasks", first, _SWEPT)
            found += [task.decode() for task in complete]
            first += _SWEPT
            if looked_at < _SWEPT:
                return found

    def prune(self) -> int:
        """Remove tasks whose tombstones have expired from the lists; return their number."""
        return int(self._view.call("prune", _PAGE))

    def submission(self, task: str) -> Submission | None:
        """Return how far a task's submission has come, in one round trip; None if there is no such task."""
        script, args = _row_call(task)
        _, *rows = self._view.call(script, *args)
        return _submission_of(rows)

    def admit(self, record: TaskRecord, who: str = "") -> Admission:
        """Check a new task against the limits of its app, and reserve it until its record is applied, for 10 s at most.

        A task that is already known is admitted again. If the record names a submitter, that submitter takes the
        submission's lease too. who: the submitter as shown to others.
        """
        expected = max(0, record.expected_targets)
        args = record.app, record.task, expected, _RESERVED_MS, record.submitter, who
        reached, limit, there, *lease = self._view.call("admit", *args)
        return Admission(reached.decode(), int(limit), int(there), _lease(lease))

    def hold_submission(self, action: HoldAction, task: str, submitter: str, who: str = "") -> SubmitLease:
        """Take the lease of a task's submission for 5 s unless another submitter holds it, renew it, or release it.
        who: the submitter as shown to others."""
        return _lease(self._view.call("hold_submission", action, task, submitter, who))

    def start_submission(self, position: str, record: TaskRecord, by: str) -> tuple[SubmitLease, Submission | None]:
        """Renew a submitter's lease, apply the task's record and read the submission back, in one round trip."""
        calls = ("hold_submission", ("renew", record.task, by)), task_call(position, record), _row_call(record.task)
        lease, _, (_, *rows) = self._view.call_many(calls)
        return _lease(lease), _submission_of(rows)

    def seal_submission(self, position: str, seal: Sealed) -> bool:
        """Apply a seal if its submitter holds the lease, which then ends. Return False, and change nothing, if not."""
        script, args = sealed_call(position, seal)
        return bool(self._view.call(script, *args, 1) != -1)

    def why(self, task: str) -> Counted:
        """Return the time a task has spent so far by cause, as the ledger counted it."""
        text, *span = self._view.command("HMGET", self._keys.task(task), "why", "why_from", "why_ms")
        return Counted(counted_of((text or b"").decode()), TimeSpan(*(int(ms or 0) for ms in span)))

    def pauses(self, task: str) -> list[Switch]:
        """Return when the task was paused and resumed."""
        return switches_of((self._view.command("HGET", self._keys.task(task), "pauses") or b"").decode())

    def channel_pauses(self, channel: str) -> list[Switch]:
        """Return when the channel was paused and resumed."""
        return switches_of((self._view.command("HGET", self._keys.globals, f"pauses|{channel}") or b"").decode())

    def now_ms(self) -> int:
        """Return Redis' time."""
        return self._view.now_ms()

    def in_flight(self, tasks: Sequence[str]) -> dict[str, InFlight]:
        """Return what each known task has in flight. All values are of one moment."""
        rows = self._view.call("in_flight", *tasks) if tasks else []
        return {task.decode(): InFlight(targets, claims, sent) for task, targets, claims, sent in rows}

    def record(self, task: str) -> TaskRecord | None:
        """Return the task's record as accepted."""
        return self._decoded(task, "record", TaskRecord)

    def checkpoint(self, task: str, writer: str = MAIN_WRITER) -> Checkpoint | None:
        """Return the furthest checkpoint of a writer."""
        return self._decoded(task, f"ckpt:{writer}", Checkpoint)

    # ------------------------------------------------------------- the whole service

    def globals(self) -> Globals:
        """Return the settings of the whole service."""
        return globals_of(self.settings())

    def settings(self) -> dict[str, str]:
        """Return the settings as stored: fields and texts (dispatcher.model.service_settings)."""
        stored = self._view.command("HGETALL", self._keys.globals)
        return {field.decode(): text.decode() for field, text in stored.items()}

    def version(self) -> int:
        """Return the version, which grows with every change; it restarts when the registry is wiped."""
        return int(self._view.command("GET", self._keys.version) or 0)

    # ------------------------------------------------------------- helpers

    def _page(
        self, listed: str, only: Mapping[str, str], limit: int, cursor: str | None, fields: Sequence[str]
    ) -> tuple[int, list[Any], str | None]:
        score, last = _place(cursor)
        now_ms, next_score, next_id, *rows = self._view.call(
            "list_tasks", listed, _encode(only), limit, _PAGE, score, last, len(fields), *fields
        )
        return now_ms, rows, f"{next_score.decode()}:{next_id.decode()}" if next_id else None

    @staticmethod
    def _views(rows: Iterable[tuple[int, Any]]) -> list[TaskView]:
        return [task_view(row_of(row, VIEW_FIELDS), now_ms) for now_ms, row in rows]

    def _live_rows(self, fields: Sequence[str]) -> Iterator[tuple[int, Any]]:
        """Yield (Redis' time, row) of each live task once. Each page takes a few ms of Redis' time, for any number of
        tasks."""
        seen: set[bytes] = set()
        cursor = None
        while True:
            now_ms, rows, cursor = self._page("tasks", {}, _PAGE, cursor, fields)
            yield from ((now_ms, row) for row in rows if row[0] not in seen)
            if cursor is None:
                return
            seen.update(row[0] for row in rows)

    def _decoded(self, task: str, field: str, kind: type[T]) -> T | None:
        stored = self._view.command("HGET", self._keys.task(task), field)
        record = decode_control(stored) if stored else None
        return record if isinstance(record, kind) else None


def _lease(answer: Sequence[Any]) -> SubmitLease:
    state, who, since_ms, until_ms = answer
    return SubmitLease(state.decode(), who.decode(), int(since_ms), int(until_ms))


def _submission_of(rows: Sequence[Any]) -> Submission | None:
    return submission_of(row_of(rows[0], SUBMISSION_FIELDS)) if rows else None


def _names(found: Iterable[bytes]) -> frozenset[str]:
    return frozenset(name.decode() for name in found)


def _place(cursor: str | None) -> tuple[str, str]:
    """Return the score and id after which a page begins. Raises InvalidInput."""
    if cursor is None:
        return "", ""
    score, _, last = cursor.partition(":")
    if not last or not score.isdecimal():
        raise InvalidInput(f"cursor: {cursor!r} is not a cursor.", "Use the cursor that the previous page named.")
    return score, last


def _row_call(task: str) -> Call:
    return "read_tasks", (len(SUBMISSION_FIELDS), *SUBMISSION_FIELDS, task)
