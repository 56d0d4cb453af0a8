"""Creates lanes that envelopes are moved to and that do not exist yet."""

from backends.pulsar.admin import PulsarAdmin
from backends.redis.registry.registry import Registry
from backends.redis.registry.task_rows import LIVE_TASK
from dispatcher.model.errors import NotFound
from dispatcher.wire.topics import side_of_lane, task_of_lane


class MissingLanes:
    """Creates side lanes, and own lanes of tasks that left a shared one, when the first envelope is moved there."""

    def __init__(self, admin: PulsarAdmin, registry: Registry) -> None:
        self._admin = admin
        self._registry = registry

    def create(self, topic: str) -> None:
        """Create a lane's topic and subscription if either is missing; provisioned lanes are left alone.

        Raises Unreachable, and NotFound for the lane of a task that has ended: it was deleted and must not come back.
        """
        task = task_of_lane(topic)
        if task is None:
            if side_of_lane(topic) is not None:
                self._admin.create_lane(topic, 0)
                self._registry.sides.add(topic)
            return
        live = self._registry.tasks.named([task], LIVE_TASK, ended=False)
        if not live:
            raise NotFound(f"The lane {topic} does not exist: its task has ended.", "Nothing more is sent to it.")
        self._admin.create_lane(topic, live[0].partitions)
