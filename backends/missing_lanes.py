"""Lanes that envelopes are to be moved to and that nobody has created yet."""

from collections.abc import Sequence
from typing import Protocol

from dispatcher.errors import NotFound
from dispatcher.topics import side_of_lane, task_of_lane


class LaneTopics(Protocol):
    def create_lane(self, topic: str) -> None:
        """The topic and its subscription. Raises Unreachable, Refused."""
        ...


class LiveTasks(Protocol):
    def live_by_id(self, tasks: Sequence[str]) -> Sequence[object]:
        """Those of the named tasks that have not ended. Raises Unreachable."""
        ...


class MissingLanes:
    """Creates side lanes, and own lanes of tasks that left a shared one, when the first envelope is moved there."""

    def __init__(self, topics: LaneTopics, tasks: LiveTasks) -> None:
        self._topics = topics
        self._tasks = tasks

    def create(self, topic: str) -> None:
        """Raises NotFound for the lane of a task that has ended (it was deleted, and must not come back) and for lanes
        that are provisioned; Unreachable."""
        task = task_of_lane(topic)
        wanted = bool(self._tasks.live_by_id([task])) if task else side_of_lane(topic) is not None
        if not wanted:
            raise NotFound(f"The lane {topic} is not there.", "Its task has ended; or run `fairlane provision`.")
        self._topics.create_lane(topic)
