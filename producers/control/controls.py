"""Live controls of tasks. A change is written to the control topic, then to the registry, and then returns."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from pydantic import JsonValue, TypeAdapter, ValidationError

from dispatcher.model.errors import NotFound, TaskEnded, Unreachable
from dispatcher.model.field_errors import invalid_input
from dispatcher.model.service_settings import Cap
from dispatcher.model.task import Message
from dispatcher.model.tier import Tier
from dispatcher.model.view import InFlight
from dispatcher.wire.control import FORMAT, ControlChange, GlobalChange, encode_override
from producers.control.task_changes import Changes
from producers.ports import Services, Submission

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
    """Whether nothing of the task is in flight any more."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One edit of a task's message."""

    number: int
    """The number of this edit of the message, from 1."""
    latest: int
    """The number of the edit now in force. It differs if somebody else edited the message at the same time and was
    later."""


class Controls:
    """Changes tasks. services: called on first use, since it connects."""

    def __init__(self, services: Callable[[], Services]) -> None:
        self._services = services

    def change(self, task: str, changes: Changes) -> None:
        """Change a task, including its queued targets. Targets in flight are not called back.

        A small low task that shares its lane gets its own lane first, unless it is only resumed, cancelled or stopped.
        """
        fields = changes.fields()
        found = self._open(task)
        self._store(found, fields)

    def pause(self, task: str) -> None:
        self.change(task, Changes(paused=True))

    def resume(self, task: str) -> None:
        self.change(task, Changes(paused=False))

    def set_weight(self, task: str, weight: float) -> None:
        self.change(task, Changes(weight=weight))

    def set_tier(self, task: str, tier: Tier | str) -> None:
        self.change(task, Changes(tier=tier))

    def set_cap(self, task: str, cap: Cap | int | str | None) -> None:
        """Set the task's own cap; None or 0: no cap of its own."""
        self.change(task, Changes(cap=0 if cap is None else cap))

    def cancel(self, task: str, wait_s: float = 0.0) -> Cancelled:
        """Cancel the task: unsent targets are not sent and end as cancelled. Repeating the call changes nothing.

        wait_s: how long to wait for the targets in flight.
        """
        return self._end(task, Changes(cancelled=True), wait_s)

    def stop(self, task: str, reason: str, wait_s: float = 0.0) -> Cancelled:
        """Stop the task like `cancel`, but end it as failed with this reason (cut at 1 kB)."""
        return self._end(task, Changes(stopped=reason), wait_s)

    def close(self, task: str, reason: str, wait_s: float = 0.0) -> Cancelled:
        """Close the task like `stop`, even if it was cancelled, stopped or has expired and does not end.

        Its claims delay the end by at most 15 s, and its outcome topic by at most 30 s. Raises TaskEnded if it has
        ended.
        """
        changes = Changes(closed=reason)
        fields = changes.fields()
        found = self._known(task)
        _refuse_ended(found)
        self._store(found, fields)
        return self.follow([task], wait_s)

    def _end(self, task: str, changes: Changes, wait_s: float) -> Cancelled:
        fields = changes.fields()
        found = self._known(task)
        if found.stopped != changes.end:
            _refuse_ended(found)
            if not found.stopped:
                self._store(found, fields)
        return self.follow([task], wait_s)

    def follow(
        self, tasks: Sequence[str], wait_s: float, on_progress: Callable[[int], None] | None = None
    ) -> Cancelled:
        """Return what is in flight of cancelled tasks and its outcome, waiting up to `wait_s` seconds.

        on_progress: called with the number of targets still in flight.
        """
        registry = self._services().registry
        before = now = registry.in_flight(tasks)
        deadline_s = time.monotonic() + wait_s
        while _claims(now) and time.monotonic() < deadline_s:
            if on_progress is not None:
                on_progress(_targets(now))
            time.sleep(_LOOK_S)
            now = registry.in_flight(tasks)
        return Cancelled(_targets(before), _sent(now) - _sent(before), not _claims(now))

    def edit(self, task: str, message: Mapping[str, JsonValue] | str) -> Edit:
        """Replace the message for all unsent targets, including further attempts."""
        try:
            checked = _message().validate_python(message)
        except ValidationError as error:
            raise invalid_input(error, "message") from None
        found = self._open(task)
        positions = self._store(found, {"override": encode_override(found.edits + 1, checked)})
        now = self._services().registry.submission(task) or found
        ours = now.edited_at in ("", positions[-1])
        return Edit(now.edits if ours else found.edits + 1, now.edits)

    def _open(self, task: str) -> Submission:
        """Return a task that accepts changes."""
        found = self._known(task)
        _refuse_ended(found)
        if found.stopped:
            raise TaskEnded(f"Task {task} is {found.stopped} and accepts no more changes.")
        return found

    def _known(self, task: str) -> Submission:
        found = self._services().registry.submission(task)
        if found is None:
            raise NotFound(f"There is no task {task}.", "`fairlane task list` shows all; ended ones are kept for days.")
        return found

    def _store(self, found: Submission, fields: Mapping[str, str]) -> list[str]:
        """Store the changes and return the positions of the records. The lane exists before the change is announced."""
        services, task = self._services(), found.record.task
        lane = services.topics.own_lane(task)
        leaves = found.shares_lane and leaves_shared_lane(fields)
        if leaves:
            services.lanes.create(lane, 0)
        return store(services, changes_of(services, task, fields, lane if leaves else ""))


def leaves_shared_lane(fields: Mapping[str, str]) -> bool:
    """Return whether a task with these changes must leave a shared lane, which is first in, first out."""
    return fields.get("paused") == "1" or not fields.keys() <= {"paused", "cancelled", "stopped", "close"}


def changes_of(services: Services, task: str, fields: Mapping[str, str], lane: str) -> list[ControlChange]:
    """Return the records of a change. If `lane` is given, the first record moves the task to that lane."""
    wanted = ({"lane": lane} if lane else {}) | dict(fields)
    now_ms = services.clock.wall_ms()
    return [ControlChange(FORMAT, task, name, text, now_ms) for name, text in wanted.items()]


def store(services: Services, records: Sequence[ControlChange | GlobalChange]) -> list[str]:
    """Store the records in this order in one batch and return their positions.

    Raises Unreachable; the error says so if the records are stored all the same.
    """
    positions = services.control.append_many(records)
    try:
        services.registry.apply_all(list(zip(positions, records, strict=True)))
    except Unreachable as error:
        raise Unreachable(
            f"The change is stored in Pulsar, but not yet in Redis: {error.cause}",
            "It takes effect on its own once Redis is back.",
        ) from error
    return positions


def _targets(counts: Mapping[str, InFlight]) -> int:
    return sum(of_task.targets for of_task in counts.values())


def _claims(counts: Mapping[str, InFlight]) -> int:
    return sum(of_task.claims for of_task in counts.values())


def _sent(counts: Mapping[str, InFlight]) -> int:
    return sum(of_task.sent for of_task in counts.values())


def _refuse_ended(found: Submission) -> None:
    if found.ended:
        raise TaskEnded(f"Task {found.record.task} has ended ({found.stopped}) and accepts no more changes.")
