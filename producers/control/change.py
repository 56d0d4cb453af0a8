"""The one path of a change of tasks or of the service: the control topic, then the view, then lanes that are
missing."""

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from dispatcher.model.errors import FairlaneError, Unreachable
from dispatcher.model.service_settings import Setting
from dispatcher.model.task_control import Control
from dispatcher.wire.control import ControlChange, GlobalChange
from producers.ports import Services

_BATCH = 500
"""The number of tasks changed in one round trip; a batch takes some ms of Redis' time."""
_LANE_MAKERS = 16
_log = logging.getLogger(__name__)


class StoredRecords(NamedTuple):
    """Records in the control topic."""

    positions: list[str]
    """Their positions."""
    lacks_redis: str = ""
    """Why the view does not hold them yet: workers apply them when Redis is back. Empty if it does."""


class TaskChange(NamedTuple):
    """New values of one task's controls."""

    task: str
    controls: tuple[Control, ...]
    shared: bool = False
    """Whether the task is in a shared lane."""

    @property
    def leaves_shared_lane(self) -> bool:
        return self.shared and any(control.needs_own_lane for control in self.controls)


def change_tasks(
    services: Services, changes: Sequence[TaskChange], on_stored: Callable[[int], None] | None = None
) -> StoredRecords:
    """Change tasks in batches. Return once the view holds the changes, or Redis turns out to be gone.

    The lanes of tasks that leave a shared one are created last: a broker creates some hundred topics a second, and a
    pause should not wait for that. A worker that needs a missing lane waits for it; one that moves an envelope there
    creates it.

    on_stored: called after each batch with the number of tasks changed so far. Raises FairlaneError at the first batch
    that fails; those before it are changed.
    """
    positions, lacks_redis, stored, failure = list[str](), "", 0, None
    while stored < len(changes) and failure is None:
        batch = changes[stored : stored + _BATCH]
        try:
            batch_stored = _store(services, [record for change in batch for record in _records(services, change)])
        except FairlaneError as error:
            failure = error
        else:
            positions += batch_stored.positions
            lacks_redis = lacks_redis or batch_stored.lacks_redis
            stored += len(batch)
            if on_stored is not None:
                on_stored(stored)
    _create_lanes(services, [change.task for change in changes[:stored] if change.leaves_shared_lane])
    if failure is not None:
        raise failure
    return StoredRecords(positions, lacks_redis)


def change_service(services: Services, settings: Sequence[Setting]) -> StoredRecords:
    """Change settings of the service. Workers follow within 200 ms. Raises Unreachable if Pulsar is gone."""
    now_ms = services.clock.wall_ms()
    return _store(services, [setting.record(now_ms, services.caller) for setting in settings])


def _store(services: Services, records: Sequence[ControlChange | GlobalChange]) -> StoredRecords:
    """Store the records in this order in one batch. Raises Unreachable if Pulsar is gone."""
    positions = services.control.append_many(records)
    try:
        services.registry.control.apply_all(list(zip(positions, records, strict=True)))
    except Unreachable as error:
        note = f"The change is stored in Pulsar and takes effect when Redis is back: {error.cause}"
        return StoredRecords(positions, note)
    return StoredRecords(positions)


def log_deferred(stored: StoredRecords) -> StoredRecords:
    """Return the same. Log it if the records take effect only when Redis is back."""
    if stored.lacks_redis:
        _log.warning(stored.lacks_redis)
    return stored


def _records(services: Services, change: TaskChange) -> Iterator[ControlChange]:
    now_ms = services.clock.wall_ms()
    if change.leaves_shared_lane:
        yield Control("lane", services.topics.own_lane(change.task)).record(change.task, now_ms)
    for control in change.controls:
        yield control.record(change.task, now_ms, services.caller)


def _create_lanes(services: Services, tasks: Sequence[str]) -> None:
    if not tasks:
        return
    with ThreadPoolExecutor(min(_LANE_MAKERS, len(tasks)), thread_name_prefix="lane") as pool:
        made = [pool.submit(services.lanes.create, services.topics.own_lane(task), 0) for task in tasks]
        for each in made:
            try:
                each.result()
            except FairlaneError:  # workers create what is missing when they need it
                pool.shutdown(wait=True, cancel_futures=True)
                return
