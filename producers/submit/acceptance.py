"""Turn a PushTask into the record frozen in the control topic, and compare tasks with records."""

from hashlib import blake2b

import msgspec

from backends.settings import ProducerOptions
from dispatcher.access.principal import NOBODY, Caller
from dispatcher.model.errors import AudienceMismatch, InvalidInput, LimitReached, NotReady
from dispatcher.model.task import MAX_START_AHEAD_S, MAX_START_BEHIND_S, PushTask
from dispatcher.model.view import Admission
from dispatcher.scheduling.read_ahead import envelope_bytes
from dispatcher.wire.control import FORMAT, TaskRecord
from dispatcher.wire.envelope import encode_message
from dispatcher.wire.topics import Topics
from producers.publish.tuning import partitions_for

_NOT_COMPARED = {
    *("id", "expected_targets", "start_at"),
    *("collapse", "category", "provider_ttl_s", "options", "locales"),  # they are in the complete message
}
_canonical = msgspec.msgpack.Encoder(order="deterministic").encode


def accept(
    task: PushTask,
    task_id: str,
    expected_targets: int | None,
    now_ms: int,
    topics: Topics,
    options: ProducerOptions = ProducerOptions(),
    first: int | None = None,
    caller: Caller = NOBODY,
) -> TaskRecord:
    """Return the record of a new task.

    first: the number of targets that are sent before it waits for a go. Raises InvalidInput if its start time is past
    or too far ahead, or if it has one and waits for a go.
    """
    _check_start(task, now_ms, first)
    own = first is not None or task.own_lane(expected_targets)
    start_ms = max(task.start_ms, now_ms)
    message, chunk = encode_message(task.complete_message), task.chosen_chunk(expected_targets)
    return TaskRecord(
        format=FORMAT,
        task=task_id,
        app=task.app,
        tier=task.tier,
        channel=task.channel,
        message=message,
        lane=topics.own_lane(task_id) if own else topics.shared_lane_of(task_id),
        shared=not own,
        chunk=chunk,
        expected_targets=-1 if expected_targets is None else expected_targets,
        weight=task.weight_milli,
        cap=task.cap or 0,
        start_ms=task.start_ms,
        expires_ms=0 if task.ttl_s is None else start_ms + round(task.ttl_s * 1000),
        hold_until_sealed=task.hold_until_sealed,
        max_attempts=task.max_attempts,
        gives_up_unknown=task.unknown == "give_up",
        retry_for_ms=round((task.retry_for_s or 0) * 1000),
        created_ms=now_ms,
        digest=task_digest(task),
        cap_burst=task.cap_burst or 0,
        first=first or 0,
        by=caller.by,
        request=caller.request,
        partitions=partitions_for(expected_targets, envelope_bytes(chunk, len(message)), options) if own else 0,
    )


def _check_start(task: PushTask, now_ms: int, first: int | None) -> None:
    if first is not None and task.start_at is not None:
        raise InvalidInput(
            "first: the first targets are sent at once, and the task has a start time.",
            "Leave start_at out, and resume the task when the rest may be sent.",
        )
    if task.start_ms > now_ms + MAX_START_AHEAD_S * 1000:
        raise InvalidInput(f"task: start_at: is more than {MAX_START_AHEAD_S // 86_400} days ahead.")
    if task.start_at is not None and task.start_ms < now_ms - MAX_START_BEHIND_S * 1000:
        raise InvalidInput(
            f"task: start_at: {task.start_at.isoformat(timespec='seconds')} is past.",
            "Give a later time, or none to start at once.",
        )


def task_digest(task: PushTask) -> str:
    """Return the digest of everything that must match when an id is submitted again.

    This excludes the id and the expected size, which is a hint and used once.
    """
    fields = task.model_dump(mode="json", exclude=_NOT_COMPARED) | {"start_ms": task.start_ms}
    fields["message"] = task.complete_message
    return blake2b(_canonical(fields), digest_size=16).hexdigest()


def check_admitted(record: TaskRecord, admission: Admission) -> None:
    """Raise LimitReached if the app may have no more tasks, NotReady if the limit cannot be checked."""
    if admission.reached in ("", "known"):
        return
    if admission.reached == "view":
        raise NotReady(
            f"The limit of app {record.app} cannot be checked: the view in Redis is being rebuilt.",
            "Submit it again in some seconds. An operator sees the progress in `fairlane registry status`.",
        )
    if admission.reached == "tasks":
        current, limit = f"{admission.current:,} live tasks", f"{admission.limit:,} tasks"
    else:
        size = f" and {record.expected_targets:,} more" if record.expected_targets > 0 else ""
        current, limit = f"{admission.current:,} queued targets{size}", f"{admission.limit:,} targets"
    raise LimitReached(
        f"App {record.app} is at its limit of {limit}: it has {current}; task {record.task} was not created.",
        f"Submit it again later. An operator may raise it: `fairlane app limit {record.app} --{admission.reached} N`.",
    )


def check_same(task: PushTask, record: TaskRecord) -> None:
    """Raise AudienceMismatch, naming the differences, if `record` belongs to another task."""
    if record.digest == task_digest(task):
        return
    stored_message = msgspec.msgpack.decode(record.message)
    pairs = {
        "app": (task.app, record.app),
        "tier": (task.tier, record.tier),
        "channel": (task.channel, record.channel),
        # The view keeps no message of an ended task.
        "message": (_canonical(task.complete_message if stored_message else ""), _canonical(stored_message)),
        "weight": (task.weight_milli, record.weight),
        "cap": (task.cap or 0, record.cap),
        "cap_burst": (task.cap_burst or 0, record.cap_burst),
        "start_at": (task.start_ms, record.start_ms),
        "hold_until_sealed": (task.hold_until_sealed, record.hold_until_sealed),
        "max_attempts": (task.max_attempts, record.max_attempts),
        "unknown": (task.unknown == "give_up", record.gives_up_unknown),
        "retry_for_s": (round((task.retry_for_s or 0) * 1000), record.retry_for_ms),
    }
    differing = [name for name, (new, stored) in pairs.items() if new != stored] or ["message, chunk or ttl_s"]
    raise AudienceMismatch(
        f"Task {record.task} was submitted before with another {', '.join(differing)}.",
        "Submit exactly the same task to go on with it, or choose another id.",
    )
