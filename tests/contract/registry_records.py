"""Control records for tests of the registry."""

from collections.abc import Sequence

import msgspec

from backends.redis.epochs import Epoch, Epochs
from backends.redis.registry.registry import Registry
from backends.redis.view import RedisView
from dispatcher.model.tier import Tier
from dispatcher.model.view import TaskView
from dispatcher.wire.control import FORMAT, Announced, ControlChange, ControlRecord, GlobalChange, Sealed, TaskRecord
from dispatcher.wire.submission import Submission


def position(number: int, ledger: int = 7) -> str:
    return f"{ledger:020d}:{number:020d}:{0:06d}"


def placed(*records: ControlRecord, first: int = 1) -> list[tuple[str, ControlRecord]]:
    """Records, one after the other in the topic."""
    return [(position(number), record) for number, record in enumerate(records, first)]


def task_of(registry: Registry, task: str = "t1") -> TaskView:
    """A task that is known, as a user sees it."""
    view = registry.tasks.task(task)
    assert view is not None
    return view


def submission_of(registry: Registry, task: str = "t1") -> Submission:
    row = registry.submissions.submission(task)
    assert row is not None
    return row


def epoch_of(epochs: Epochs) -> Epoch:
    """The epoch of a view that was begun."""
    epoch = epochs.epoch()
    assert epoch is not None
    return epoch


def task_record(task: str = "t1", *, shared: bool = False, tier: Tier = Tier.HIGH, **fields: object) -> TaskRecord:
    record = TaskRecord(
        format=FORMAT, task=task, app="shop", tier=tier, channel="null",
        message=msgspec.Raw(msgspec.msgpack.encode({"title": "Sale"})),
        lane="persistent://fairlane/shared/low-1" if shared else f"persistent://fairlane/tasks-01/{task}",
        shared=shared, chunk=100, expected_targets=1_000, weight=1_000, cap=0, start_ms=0, expires_ms=0,
        hold_until_sealed=False, max_attempts=5, created_ms=1_700_000_000_000, digest="d",
    )  # fmt: skip
    return msgspec.structs.replace(record, **fields)


def change(task: str, field: str, value: str, at_ms: int = 0) -> ControlChange:
    return ControlChange(FORMAT, task, field, value, at_ms)


def setting(field: str, value: str, at_ms: int = 0) -> GlobalChange:
    return GlobalChange(FORMAT, field, value, at_ms)


def sealed(task: str, targets: int, writers: Sequence[str] = ("0",)) -> Sealed:
    return Sealed(format=FORMAT, task=task, targets=targets, refused=3, digest="seal", writers=list(writers))


def announced(by: str, first: int, targets: int) -> Announced:
    """A part of the audience of task t1 that its submitter is about to publish."""
    return Announced(
        format=FORMAT, task="t1", submitter=by, first=first, targets=targets, refused=0, digest=f"d{targets}"
    )


def ready(view: RedisView) -> None:
    """As after a rebuild."""
    view.command("HSET", view.keys.epoch, "id", "e", "ready", "1", "grants_after_ms", "0")
