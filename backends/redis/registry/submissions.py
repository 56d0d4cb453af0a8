"""Submissions in the registry: who may submit a task, and how far its audience has come."""

from collections.abc import Sequence
from typing import Any

from backends.redis.registry.record_calls import Call, sealed_call, task_call
from backends.redis.registry.task_rows import SUBMISSION
from backends.redis.view import ViewPart
from dispatcher.model.view import Admission, HoldAction, SubmitLease
from dispatcher.wire.control import Sealed, TaskRecord
from dispatcher.wire.submission import Submission

_RESERVED_MS = 10_000


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
