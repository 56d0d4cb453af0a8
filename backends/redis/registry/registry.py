"""The parts of the registry over one view, and how far they reflect the control topic, the source of truth.

Here are its submissions, its feed of changes and its fold. The tables of tasks and settings have their own modules.

Code that needs one question takes that part, not the whole.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from backends.redis.client import with_read_timeout
from backends.redis.registry.record_calls import Call, call_of, sealed_call, task_call
from backends.redis.registry.service import ServiceTable, SideLaneTable
from backends.redis.registry.task_rows import SUBMISSION
from backends.redis.registry.tasks import TaskTable
from backends.redis.view import RedisView, ViewPart
from dispatcher.model.view import Admission, FeedEntry, HoldAction, SubmitLease
from dispatcher.wire.control import ControlRecord, Sealed, TaskRecord
from dispatcher.wire.submission import Submission

_RESERVED_MS = 10_000
_ANSWER_S = 5.0
_START = b"0-0"


class SubmissionTable(ViewPart):
    """Submissions and their leases. All methods raise Unreachable when Redis is gone."""

    def submission(self, task: str) -> Submission | None:
        """Return how far a task's submission has come, in one round trip; None if there is no such task."""
        script, args = _row_call(task)
        return _row(self._view.call(script, *args))

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
        lease, _, answer = self._view.call_many(calls)
        return _lease(lease), _row(answer)

    def seal_submission(self, position: str, seal: Sealed) -> bool:
        """Apply a seal if its submitter holds the lease, which then ends. Return False, and change nothing, if not."""
        script, args = sealed_call(position, seal)
        return bool(self._view.call(script, *args, 1) != -1)


def _lease(answer: Sequence[Any]) -> SubmitLease:
    state, who, since_ms, until_ms = answer
    return SubmitLease(state.decode(), who.decode(), int(since_ms), int(until_ms))


def _row_call(task: str) -> Call:
    return "read_tasks", (len(SUBMISSION.fields), *SUBMISSION.fields, task)


def _row(answer: Sequence[Any]) -> Submission | None:
    now_ms, *rows = answer
    return SUBMISSION.parse(rows[0], now_ms) if rows else None


class ControlView(ViewPart):
    """Applies control records and keeps the fold's cursor. All methods raise Unreachable when Redis is gone."""

    def apply(self, position: str, record: ControlRecord) -> None:
        """Apply a record of the control topic, stored there at `position`, in one round trip.

        Records may come in any order and any number of times: the resulting view is the same. For a restated record,
        apply the original. A seal counts once the cursor has reached it.
        """
        self.apply_all([(position, record)])

    def apply_all(self, records: Sequence[tuple[str, ControlRecord]]) -> None:
        """Apply many (position, record) as `apply` does, in one round trip."""
        self._view.call_many([call for position, record in records if (call := call_of(position, record))])

    def cursor(self) -> str | None:
        """Return the position up to which the control topic has been applied; None if nothing has been."""
        cursor = self._view.command("HGET", self._view.keys.control, "cursor")
        return cursor.decode() if cursor else None

    def move_cursor(self, expected: str | None, to: str, epoch: str, *, marked: bool) -> bool:
        """Move the cursor. Return False and change nothing if it is not at `expected` or the view has another epoch.

        marked: the epoch's mark has been read, so the view is complete as far as the control topic goes.
        """
        return bool(self._view.call("move_cursor", expected or "", to, epoch, int(marked)))

    def complete_among(self, tasks: Sequence[str]) -> list[str]:
        """Return those of these tasks that have an outcome for every target but no end written yet; none while the view
        is not ready."""
        return [task.decode() for task in self._view.call("complete_among", *tasks)] if tasks else []


class Registry:
    """The registry in Redis, folded from the control topic."""

    def __init__(self, view: RedisView) -> None:
        self.control = ControlView(view)
        self.tasks = TaskTable(view)
        self.submissions = SubmissionTable(view)
        self.service = ServiceTable(view)
        self.sides = SideLaneTable(view)


class Feed:
    """A reader of the feed with its own connection; for one thread. max_block_s: maximum time a watch may block."""

    def __init__(self, view: RedisView, max_block_s: float = 5.0) -> None:
        self._view = replace(view, client=with_read_timeout(view.client, max_block_s + _ANSWER_S))
        self._max_block_ms = int(max_block_s * 1000)

    def last(self) -> bytes:
        """Return the id of the feed's last entry. Raises Unreachable."""
        entries = self._view.command("XREVRANGE", self._view.keys.feed, "+", "-", "COUNT", 1)
        return bytes(entries[0][0]) if entries else _START

    def watch(self, after: bytes | None, block_ms: int) -> tuple[bytes, list[FeedEntry]]:
        """Return the id to continue from, and the entries after an id (None: from now on). Wait up to block_ms for the
        first. Raises Unreachable."""
        start = self.last() if after is None else after
        block = max(1, min(block_ms, self._max_block_ms))
        words = ("COUNT", 1_000, "BLOCK", block, "STREAMS", self._view.keys.feed, start)
        streams = self._view.command("XREAD", *words)
        entries = streams[0][1] if streams else []
        changes = [FeedEntry(fields[b"kind"].decode(), fields[b"task"].decode()) for _, fields in entries]
        return (bytes(entries[-1][0]) if entries else start), changes

    def close(self) -> None:
        self._view.close()
