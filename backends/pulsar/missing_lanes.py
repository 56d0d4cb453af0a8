"""Creates lanes that envelopes are moved to and that do not exist yet."""

from collections.abc import Sequence
from typing import Protocol

from dispatcher.model.errors import NotFound
from dispatcher.wire.topics import side_of_lane, task_of_lane


class LaneCreator(Protocol):
    def create_lane(self, topic: str, partitions: int) -> None:
        """Create the topic and its subscription if either is missing. Raises Unreachable, Refused."""
        ...


class LaneOwner(Protocol):
    @property
    def partitions(self) -> int:
        """Number of partitions of the task's own lane; 0 for a plain topic."""
        ...


class KnownLanes(Protocol):
    def live_by_id(self, tasks: Sequence[str]) -> Sequence[LaneOwner]:
        """Return those of the named tasks that have not ended. Raises Unreachable."""
        ...

    def add_side_lane(self, topic: str) -> None:
        """Make a side lane known to the workers. Raises Unreachable."""
        ...


class MissingLanes:
    """Creates side lanes, and own lanes of tasks that left a shared one, when the first envelope is moved there."""

    def __init__(self, topics: LaneCreator, tasks: KnownLanes) -> None:
        self._topics = topics
        self._tasks = tasks

    def create(self, topic: str) -> None:
        """Create a lane's topic and subscription if either is missing; provisioned lanes are left alone.

        Raises Unreachable, and NotFound for the lane of a task that has ended: it was deleted and must not come back.
        """
        task = task_of_lane(topic)
        if task is None:
            if side_of_lane(topic) is not None:
                self._topics.create_lane(topic, 0)
                self._tasks.add_side_lane(topic)
            return
        live = self._tasks.live_by_id([task])
        if not live:
            raise NotFound(f"The lane {topic} does not exist: its task has ended.", "Nothing more is sent to it.")
        self._topics.create_lane(topic, live[0].partitions)
