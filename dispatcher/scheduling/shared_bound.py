"""A bound on targets that no single outcome topic or task can exhaust."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class _TopicTargets:
    """Targets of the tasks of one outcome topic."""

    targets: int = 0


@dataclass(slots=True, eq=False)
class _TaskTargets:
    """Targets of one task."""

    topic: _TopicTargets
    targets: int = 0


class SharedBound:
    """Counts targets by task and by the outcome topic of the task.

    A task has room while it has fewer targets than the free part of the bound, less the targets of its topic. So others
    have room however much is stuck in one task or topic: a task alone stops at a third of the bound, and the tasks of
    one topic stop at half of it. Only targets that are added without asking `has_room` can exceed the bound.
    """

    def __init__(self, bound: int, partition_of: Callable[[str], int]) -> None:
        """`partition_of` returns the number of a task's outcome topic."""
        self.targets = 0
        """Total of all tasks."""
        self._bound = bound
        self._partition_of = partition_of
        self._tasks: dict[str, _TaskTargets] = {}
        """Tasks with any targets."""
        self._topics: dict[int, _TopicTargets] = {}

    def add(self, task: str, targets: int) -> None:
        """Add to a task's targets; a negative number subtracts. Called for every envelope, so it changes objects in
        place."""
        if not targets:
            return
        counted = self._tasks.get(task)
        if counted is None:
            counted = self._tasks[task] = _TaskTargets(self._topic_of(task))
        self.targets += targets
        counted.topic.targets += targets
        counted.targets += targets
        if not counted.targets:
            del self._tasks[task]

    @property
    def is_roomy(self) -> bool:
        """Whether every task has room."""
        return 3 * self.targets < self._bound

    def has_room(self, task: str) -> bool:
        """Return whether the task has room, so that more of it may be added."""
        if self.is_roomy:
            return True  # no task and no topic has more than the total
        counted = self._tasks.get(task) or _TaskTargets(self._topic_of(task))
        return counted.targets < self._bound - self.targets - counted.topic.targets

    def _topic_of(self, task: str) -> _TopicTargets:
        return self._topics.setdefault(self._partition_of(task), _TopicTargets())
