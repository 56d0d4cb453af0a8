"""A handle of a submitted task: its progress and its controls."""

import time
from collections.abc import Callable, Iterator, Mapping

from pydantic import JsonValue

from dispatcher.model.errors import NotReady, TimedOut, Unreachable
from dispatcher.model.pools import Cap
from dispatcher.model.tier import Tier
from dispatcher.model.view import TaskView
from producers.aio import AsyncProxy, awaited
from producers.connection import Connection
from producers.control.controls import Cancelled, Controls, Edit
from producers.control.task_changes import Changes
from producers.outcomes.record import ReasonGroup, TargetRecord, group_by_reason
from producers.submit.report import SubmitResult

_FIRST_POLL_S = 0.02
_LONGEST_POLL_S = 0.25
_SHOWN_EVERY_S = 1.0
_OUTAGE_S = 60.0
"""How long `wait` continues without an answer from Redis."""


class TaskHandle:
    """A handle of one task. A task can have any number of handles, in any process.

    Controls return once the view holds the change; workers follow within 200 ms. While Redis is gone they store the
    change in Pulsar, where it takes effect when Redis is back, and log a warning. They raise TaskEnded, NotFound,
    InvalidInput, or Unreachable if Pulsar is gone. A small low task that shares its lane gets its own lane.
    """

    def __init__(
        self, task: str, connection: Connection, controls: Controls, result: SubmitResult | None = None
    ) -> None:
        self.id = task
        """The task's id."""
        self.result = result
        """The result of the `submit` that returned this handle; None for a handle obtained in another way."""
        self._connection = connection
        self._controls = controls
        self._answered_s = time.monotonic()

    def __repr__(self) -> str:
        return f"TaskHandle({self.id!r})"

    def progress(self) -> TaskView:
        """Return the task in its current state; its counts add up to the audience.

        While the view is being rebuilt, counts lag behind, and a task it does not know yet raises NotReady. Raises
        NotFound, Unreachable.
        """
        return self._connection.foresight.with_etas([self._connection.known_tasks.task(self.id)])[0]

    def wait(
        self, timeout_s: float | None = None, *, on_progress: Callable[[TaskView], None] | None = None
    ) -> TaskView:
        """Wait until every target has an outcome. Raises TimedOut after `timeout_s` seconds; None: never.

        Waits through a rebuild of the view, and through an outage of Redis of up to a minute. on_progress: called about
        once a second with the task in its current state.
        """
        self._answered_s = time.monotonic()
        deadline_s = None if timeout_s is None else self._answered_s + timeout_s
        pause_s, shown_s = _FIRST_POLL_S, float("-inf")
        while True:
            view = self._seen()
            if view is not None and view.ended:
                return view
            now_s = time.monotonic()
            if on_progress and view and now_s - shown_s >= _SHOWN_EVERY_S:
                shown_s = now_s
                on_progress(self._estimated(view))
            left_s = pause_s if deadline_s is None else deadline_s - now_s
            if left_s <= 0:
                raise TimedOut(_unfinished(self.id, view, timeout_s or 0))
            time.sleep(min(pause_s, left_s))
            pause_s = min(pause_s * 1.5, _LONGEST_POLL_S)

    def _seen(self) -> TaskView | None:
        """Return the task without an estimate, or None if the view cannot answer at the moment."""
        try:
            view = self._connection.known_tasks.task(self.id)
        except NotReady:
            view = None
        except Unreachable:
            if time.monotonic() - self._answered_s > _OUTAGE_S:
                raise
            return None
        self._answered_s = time.monotonic()
        return view

    def _estimated(self, view: TaskView) -> TaskView:
        try:
            return self._connection.foresight.with_etas([view])[0]
        except Unreachable:
            return view

    def pause(self) -> None:
        """Stop sending until `resume`."""
        self._controls.change(self.id, Changes(paused=True))

    def resume(self) -> None:
        """Resume a paused task."""
        self._controls.change(self.id, Changes(paused=False))

    def cancel(self, wait_s: float = 0.0) -> Cancelled:
        """Cancel the task: unsent targets are not sent. This also ends a submission in progress.

        wait_s: the maximum time to wait for the outcomes of targets in flight.
        """
        return self._controls.end(self.id, Changes(cancelled=True), wait_s)

    def stop(self, reason: str, wait_s: float = 0.0) -> Cancelled:
        """Stop the task like `cancel`, but end it as failed with this reason, which its view and its tombstone keep."""
        return self._controls.end(self.id, Changes(stopped=reason), wait_s)

    def close(self, reason: str, wait_s: float = 0.0) -> Cancelled:
        """Close a task that cannot end by itself, even if it was cancelled or stopped before.

        Like `stop`, it ends the task as failed with this reason, within 30 s; open targets end as cancelled. Raises
        TaskEnded if the task has ended.
        """
        return self._controls.end(self.id, Changes(closed=reason), wait_s)

    def set_weight(self, weight: float) -> None:
        """Set the task's weight among the tasks of its tier, 0.001 to 1,000."""
        self._controls.change(self.id, Changes(weight=weight))

    def set_tier(self, tier: Tier | str) -> None:
        """Move the task to another tier, including its queued targets."""
        self._controls.change(self.id, Changes(tier=tier))

    def set_cap(self, cap: Cap | int | str | None) -> None:
        """Set the maximum targets/s, as a number, a Cap, "RATE" or "RATE:BURST"; None: no cap of its own."""
        self._controls.change(self.id, Changes(cap=0 if cap is None else cap))

    def edit_message(self, message: Mapping[str, JsonValue] | str) -> Edit:
        """Replace the message for all unsent targets, retries included; a str is its body. Workers follow within 2 s.

        The message is checked like that of a PushTask.
        """
        return self._controls.edit(self.id, message)

    def failures(self) -> Iterator[TargetRecord]:
        """Yield the failed targets so far with their reasons, each once. Raises Unreachable, NotFound, NotReady."""
        return self._connection.failures(self.id)

    def outcomes(self, target: str | None = None) -> Iterator[TargetRecord]:
        """Yield the final outcomes of its targets so far, or of one target, from the outcome records of 14 days.

        Records name only invalid targets unless the workers' setting `journal.targets` is `all`; the others come
        without an address. Targets that were cancelled or expired as a whole have no record each. A record may be
        stored twice: of several outcomes of a target the first counts. Raises Unreachable, NotFound, NotReady.
        """
        return self._connection.outcomes(self.id, target)

    def failures_by_reason(self) -> list[ReasonGroup]:
        """Return the number of failed targets by reason, the most frequent first. Raises as `failures`."""
        return group_by_reason(self.failures())


def _unfinished(task: str, view: TaskView | None, timeout_s: float) -> str:
    if view is None:
        return f"Task {task} is not known after {timeout_s:g} s: the view in Redis is missing or being rebuilt."
    open_ones, total = view.targets.pending, view.targets.total
    return f"Task {view.id} is {view.state} after {timeout_s:g} s: {open_ones:,} of {total:,} targets are open."


class AsyncTaskHandle(AsyncProxy[TaskHandle]):
    """A handle of a task, like TaskHandle; every method is awaited."""

    @property
    def id(self) -> str:
        """The task's id."""
        return self._target.id

    @property
    def result(self) -> SubmitResult | None:
        """The result of the `submit` that returned this handle; None for a handle obtained in another way."""
        return self._target.result

    cancel = awaited(TaskHandle.cancel)
    close = awaited(TaskHandle.close)
    edit_message = awaited(TaskHandle.edit_message)
    failures = awaited(TaskHandle.failures)
    failures_by_reason = awaited(TaskHandle.failures_by_reason)
    outcomes = awaited(TaskHandle.outcomes)
    pause = awaited(TaskHandle.pause)
    progress = awaited(TaskHandle.progress)
    resume = awaited(TaskHandle.resume)
    set_cap = awaited(TaskHandle.set_cap)
    set_tier = awaited(TaskHandle.set_tier)
    set_weight = awaited(TaskHandle.set_weight)
    stop = awaited(TaskHandle.stop)
    wait = awaited(TaskHandle.wait)
