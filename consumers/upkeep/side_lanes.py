"""Create lanes that envelopes are moved to, delete empty side lanes, list those that an empty Redis has lost."""

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from backends.pulsar.admin import PulsarAdmin
from backends.redis.registry.registry import Registry
from backends.redis.registry.service import SideLaneTable
from backends.redis.registry.task_rows import LIVE_TASK
from dispatcher.clock import Clock
from dispatcher.model.errors import NotFound
from dispatcher.ports import LaneTopics
from dispatcher.wire.topics import side_of_lane, task_of_lane

_log = logging.getLogger(__name__)
ROUND_S = 10.0


@dataclass(eq=False)
class SideLaneCleaner:
    """Removes side lanes that have been empty for a while.

    A lane is taken off the registry's list first; workers then detach, and its topic is deleted. A worker that moves an
    envelope there lists it again, and its producer protects the topic from deletion.
    """

    topics: LaneTopics
    sides: SideLaneTable
    complete: Callable[[], bool]
    """Whether the view is complete. While it is being rebuilt, no lane is taken off the list."""
    namespace: str
    clock: Clock
    _empty: set[str] = field(default_factory=set)
    _next_s: float = -math.inf

    def begin(self) -> None:
        """Drop the state of an earlier term. Call this when the worker takes up the job."""
        self._empty, self._next_s = set(), -math.inf

    def round(self) -> None:
        """Check all side lanes, every ten seconds. Raises Unreachable."""
        now_s = self.clock.monotonic_s()
        if now_s < self._next_s:
            return
        self._next_s = now_s + ROUND_S
        listed = [topic for topic in self.topics.list_topics(self.namespace) if side_of_lane(topic)]
        known = self.sides.topics()
        was_empty, self._empty = self._empty, {topic for topic in known if self._is_empty(topic)}
        for topic in set(listed) - known:
            # Checked last: an envelope moved there later keeps a producer on the topic for some seconds.
            if self._is_empty(topic):
                self._delete(topic)
            else:
                self.sides.add(topic)
        if self.complete():
            for topic in known & was_empty & self._empty:
                self.sides.drop(topic)

    def _is_empty(self, topic: str) -> bool:
        try:
            return self.topics.backlog(topic) == 0
        except NotFound:
            return True

    def _delete(self, topic: str) -> None:
        if self.topics.delete_topic(topic):
            _log.info("deleted the side lane %s", topic)


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
