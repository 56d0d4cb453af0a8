"""The channels of the live workers, and the tasks that wait for a channel that no worker has."""

from collections.abc import Iterable
from typing import NamedTuple, Self

from dispatcher.model.values import counted
from dispatcher.model.view import TaskView, WorkerBeat


class Served(NamedTuple):
    """The channels that the live workers have. Make it from their heartbeats with `Served.by`."""

    workers: int
    channels: frozenset[str] | None
    """Channels of at least one worker; None if a worker does not name its channels."""

    @classmethod
    def by(cls, beats: Iterable[WorkerBeat]) -> Self:
        """Collect the channels from the heartbeats of all workers."""
        live = [beat.channels for beat in beats if beat.is_live]
        known = [channels for channels in live if channels is not None]
        return cls(len(live), frozenset().union(*known) if len(known) == len(live) else None)

    @property
    def is_known(self) -> bool:
        """Whether all live workers report their channels."""
        return self.channels is not None or not self.workers

    def lacks(self, channel: str) -> bool:
        """Return whether there are live workers and none has the channel."""
        return self.workers > 0 and self.channels is not None and channel not in self.channels

    def trouble(self, channel: str) -> str:
        """Return why nothing is sent on the channel; empty if a worker has it, or may have it."""
        if not self.workers:
            return "no worker is running"
        return f"no worker has channel {channel}" if self.lacks(channel) else ""

    def channel_list(self) -> str:
        """Return the available channels, for a message."""
        return ", ".join(sorted(self.channels or ())) or "none"


class WaitingTasks(NamedTuple):
    """Live tasks of one channel, and their open targets."""

    channel: str
    tasks: int
    targets: int

    def __str__(self) -> str:
        tasks = counted(self.tasks, "task")
        return f"no worker has channel {self.channel}: {tasks} with {self.targets:,} targets wait for it"


def waiting_tasks(served: Served, tasks: Iterable[TaskView]) -> list[WaitingTasks]:
    """Return, by channel, the live tasks with open targets whose channel no live worker has."""
    return waiting_of(served, ((task.channel, task.targets.pending, 1) for task in tasks if not task.ended))


def waiting_of(served: Served, open_targets: Iterable[tuple[str, float, int]]) -> list[WaitingTasks]:
    """Return the same as waiting_tasks, for live tasks given as channels, with numbers of open targets and tasks."""
    waiting: dict[str, WaitingTasks] = {}
    for channel, pending, tasks in open_targets:
        if pending and served.lacks(channel):
            before = waiting.get(channel, WaitingTasks(channel, 0, 0))
            waiting[channel] = WaitingTasks(channel, before.tasks + tasks, before.targets + round(pending))
    return [waiting[channel] for channel in sorted(waiting)]
