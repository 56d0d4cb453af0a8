"""Creates lanes that envelopes are moved to and that do not exist yet."""

from backends.pulsar.admin import PulsarAdmin
from backends.redis.registry.registry import Registry
from backends.redis.registry.task_rows import LIVE_TASK
from dispatcher.model.errors import NotFound
from dispatcher.wire.topics import side_of_lane, task_of_lane


def create_missing_lane(admin: PulsarAdmin, registry: Registry, topic: str) -> None:
    """Create the topic and subscription of a lane that the first envelope is moved to, if either is missing: of a side
    lane, or a lane of its own of a task that left a shared one. Provisioned lanes are left alone.

    Raises Unreachable, and NotFound for the lane of a task that has ended: it was deleted and must not come back.
    """
    task = task_of_lane(topic)
    if task is None:
        if side_of_lane(topic) is not None:
            admin.create_lane(topic, 0)
            registry.sides.add(topic)
        return
    live = registry.tasks.named([task], LIVE_TASK, ended=False)
    if not live:
        raise NotFound(f"The lane {topic} does not exist: its task has ended.", "Nothing more is sent to it.")
    admin.create_lane(topic, live[0].partitions)
