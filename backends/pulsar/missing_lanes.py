"""Lanes that envelopes are to be moved to and that nobody has created yet."""

from collections.abc import Sequence
from typing import Protocol

from dispatcher.model.errors import NotFound
from dispatcher.wire.topics import side_of_lane, task_of_lane


class LaneCreator(Protocol):
    def create_lane(self, topic: str, partitions: int) -> None:
        """What is missing of the topic and its subscription. Raises Unreachable, Refused."""
        ...


class LaneOwner(Protocol):
    @property
    def partitions(self) -> int:
        """Of its own lane, 0 for a plain topic."""
        ...


class KnownLanes(Protocol):
    def live_by_id(self, tasks: Sequence[str]) -> Sequence[LaneOwner]:
        """Those of the named tasks that have not ended. Raises Unreachable."""
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
        """What is missing of the lane; those that are provisioned are left alone. Raises NotFound for the lane of a
        task that has ended (it was deleted, and must not come back); Unreachable."""
        task = task_of_lane(topic)
        if task is None:
            if side_of_lane(topic) is not None:
                self._topics.create_lane(topic, 0)
                self._tasks.add_side_lane(topic)
            return
        live = self._tasks.live_by_id([task])
        if not live:
            raise NotFound(f"The lane {topic} is not there: its task has ended.", "Nothing more is sent to it.")
        self._topics.create_lane(topic, live[0].partitions)
