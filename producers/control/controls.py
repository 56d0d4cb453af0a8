"""Live controls of one task."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from pydantic import JsonValue, TypeAdapter, ValidationError

from dispatcher.channels.submission.task_message import edited_message
from dispatcher.model.errors import TaskEnded
from dispatcher.model.field_errors import invalid_input
from dispatcher.model.task import Message
from dispatcher.model.task_control import Control, Override
from dispatcher.model.view import InFlight
from dispatcher.wire.envelope import decode_message
from dispatcher.wire.submission import Submission
from producers.control.change import StoredRecords, TaskChange, change_tasks, log_deferred
from producers.control.known_tasks import no_such_task, without_redis
from producers.control.task_changes import Changes
from producers.ports import Services

_LOOK_S = 0.05


@cache
def _message() -> TypeAdapter[dict[str, JsonValue]]:
    return TypeAdapter(Message)  # takes 30 ms, and most commands do not need it


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The targets that a cancel could not call back."""

    in_flight: int
    """Targets that were claimed for sending when the cancel took effect."""
    sent: int
    """How many of these targets were sent after all, as far as is known."""
    settled: bool
    """Whether nothing of the task is in flight any more. False also if Redis is gone, and nothing is known of it."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One edit of a task's message."""

    number: int
    """The number of this edit of the message, from 1."""
    latest: int
    """The number of the edit now in force. It differs if somebody else edited the message at the same time and was
    later."""
    lacks_redis: str = ""
    """Why the edit comes into force only when Redis is back; otherwise empty."""


class Controls:
    """Changes single tasks. services: called on first use, since it connects."""

    def __init__(self, services: Callable[[], Services]) -> None:
        self._services = services

    def change(self, task: str, changes: Changes) -> None:
        """Change a task, including its queued targets. Targets in flight are not called back.

        A small low task that shares its lane gets its own lane, unless it is only resumed. Raises TaskEnded, NotFound,
        InvalidInput; Unreachable if Pulsar is gone. Without Redis the change is stored, and takes effect when Redis is
        back; a warning in the log says so.
        """
        self._change(self._open(task), changes.controls())

    def end(self, task: str, changes: Changes, wait_s: float = 0.0) -> Cancelled:
        """Cancel, stop or close the task. Repeating a cancel or a stop changes nothing.

        Only a close changes a task that was cancelled, was stopped or has expired, and does not end. Its claims delay
        the end by at most 15 s, and its outcome topic by at most 30 s. Raises TaskEnded if the task has ended; a task
        that has ended in the requested way is not refused another cancel or stop. wait_s: how long to wait for the
        targets in flight.
        """
        controls, submission = changes.controls(), self._known(task)
        if not changes.is_done(submission):
            _refuse_ended(submission)
            if changes.takes(submission):
                self._change(submission, controls)
        return without_redis(lambda: self.follow([task], wait_s), lambda: Cancelled(0, 0, settled=False))

    def follow(
        self, tasks: Sequence[str], wait_s: float, on_progress: Callable[[int], None] | None = None
    ) -> Cancelled:
        """Return what is in flight of cancelled tasks and its outcome, waiting up to `wait_s` seconds.

        on_progress: called with the number of targets still in flight.
        """
        table = self._services().registry.tasks
        before = now = _total(table.in_flight(tasks))
        deadline_s = time.monotonic() + wait_s
        while now.claims and time.monotonic() < deadline_s:
            if on_progress is not None:
                on_progress(now.targets)
            time.sleep(_LOOK_S)
            now = _total(table.in_flight(tasks))
        return Cancelled(before.targets, now.sent - before.sent, not now.claims)

    def edit(self, task: str, message: Mapping[str, JsonValue] | str) -> Edit:
        """Replace the message for all unsent targets, retries included; a str is its body.

        For `fcm` and `apns` the new message is checked like a submitted one. Fields that say how it is delivered
        (collapse, category, provider_ttl_s, options) stay as submitted unless it names them; locales do not.
        """
        try:
            checked = _message().validate_python(message)
        except ValidationError as error:
            raise invalid_input(error, "message") from None
        submission = self._open(task)
        record = submission.record
        checked = edited_message(record.channel, decode_message(record.message), checked)
        stored = self._change(submission, (Control("override", Override(submission.edits + 1, checked)),))
        now = self._find(task) or submission
        ours = now.edited_at in ("", stored.positions[-1])
        return Edit(now.edits if ours else submission.edits + 1, now.edits, stored.lacks_redis)

    def _open(self, task: str) -> Submission:
        """Return a task that accepts changes."""
        submission = self._known(task)
        _refuse_ended(submission)
        if submission.stopped:
            raise TaskEnded(f"Task {task} is {submission.stopped} and accepts no more changes.")
        return submission

    def _known(self, task: str) -> Submission:
        submission = self._find(task)
        if submission is None:
            raise no_such_task(task)
        return submission

    def _find(self, task: str) -> Submission | None:
        known = self._services().known
        return without_redis(lambda: known.submission(task), lambda: known.stored([task]).get(task))

    def _change(self, submission: Submission, controls: tuple[Control, ...]) -> StoredRecords:
        change = TaskChange(submission.record.task, controls, submission.shared)
        return log_deferred(change_tasks(self._services(), [change]))


def _total(counts: Mapping[str, InFlight]) -> InFlight:
    return InFlight(*map(sum, zip(*counts.values(), strict=True))) if counts else InFlight(0, 0, 0)


def _refuse_ended(submission: Submission) -> None:
    if submission.ended:
        raise TaskEnded(f"Task {submission.record.task} has ended ({submission.stopped}) and accepts no more changes.")
