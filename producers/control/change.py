"""The one path of a change of tasks or of the service: the control topic, then the view, then lanes that are
missing."""

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
) -> list[str]:
    """Change tasks in batches and return the positions of the records. Return once the view holds the changes.

    The lanes of tasks that leave a shared one are created last: a broker creates some hundred topics a second, and a
    pause should not wait for that. A worker that needs a missing lane waits for it; one that moves an envelope there
    creates it.

    on_stored: called after each batch with the number of tasks changed so far. Raises FairlaneError at the first batch
    that fails; those before it are changed.
    """
    positions, stored, failure = list[str](), 0, None
    while stored < len(changes) and failure is None:
        batch = changes[stored : stored + _BATCH]
        try:
            positions += _store(services, [record for change in batch for record in _records(services, change)])
        except FairlaneError as error:
            failure = error
        else:
            stored += len(batch)
            if on_stored is not None:
                on_stored(stored)
    _create_lanes(services, [change.task for change in changes[:stored] if change.leaves_shared_lane])
    if failure is not None:
        raise failure
    return positions


def change_service(services: Services, settings: Sequence[Setting]) -> None:
    """Change settings of the service. Workers follow within 200 ms. Raises Unreachable."""
    now_ms = services.clock.wall_ms()
    _store(services, [setting.record(now_ms) for setting in settings])


def _store(services: Services, records: Sequence[ControlChange | GlobalChange]) -> list[str]:
    """Store the records in this order in one batch and return their positions.

    Raises Unreachable; the error says so if the records are stored all the same.
    """
    positions = services.control.append_many(records)
    try:
        services.registry.control.apply_all(list(zip(positions, records, strict=True)))
    except Unreachable as error:
        raise Unreachable(
            f"The change is stored in Pulsar, but not yet in Redis: {error.cause}",
            "It takes effect on its own once Redis is back.",
        ) from error
    return positions


def _records(services: Services, change: TaskChange) -> Iterator[ControlChange]:
    now_ms = services.clock.wall_ms()
    if change.leaves_shared_lane:
        yield Control("lane", services.topics.own_lane(change.task)).record(change.task, now_ms)
    for control in change.controls:
        yield control.record(change.task, now_ms)


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
