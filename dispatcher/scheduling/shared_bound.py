"""A bound on targets that no single outcome topic or task can exhaust."""

from collections.abc import Callable


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
        self._tasks: dict[str, tuple[int, int]] = {}
        """Partition and targets of each task with any targets."""
        self._partitions: dict[int, int] = {}

    def add(self, task: str, targets: int) -> None:
        """Add to a task's targets; a negative number subtracts."""
        if not targets:
            return
        partition, of_task = self._tasks.get(task) or (self._partition_of(task), 0)
        self.targets += targets
        self._partitions[partition] = self._partitions.get(partition, 0) + targets
        if of_task + targets:
            self._tasks[task] = partition, of_task + targets
        else:
            del self._tasks[task]

    def has_room(self, task: str) -> bool:
        """Return whether the task has room, so that more of it may be added."""
        if 3 * self.targets < self._bound:
            return True  # checked for every pick: no task and no topic has more than the total
        partition, of_task = self._tasks.get(task) or (self._partition_of(task), 0)
        return of_task < self._bound - self.targets - self._partitions.get(partition, 0)
