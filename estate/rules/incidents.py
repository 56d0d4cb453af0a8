"""Incidents: which states of lanes and tasks are one. Lanes are as brokers measure them, tasks as Redis shows them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from backends.pulsar.lane_stats import LaneStats
from dispatcher.model.view import TaskView
from dispatcher.wire.topics import topics_of_lane

STUCK_MS = 60_000
"""How long workers get nothing of a task before it is an incident. Workers ask for the targets of a lane that they can
read several times a second, also while these wait for their turn."""


@dataclass(frozen=True)
class Incident:
    """A reason to take a capture."""

    reason: str
    """In words."""
    node: str = ""
    """The broker or bookie that it is about, by its name in `fairlane estate show`."""
    task: str = ""
    topics: tuple[str, ...] = ()
    """Topics of the lanes that it is about."""

    @property
    def subject(self) -> tuple[str, ...]:
        """Return what it is about. Incidents of one subject are one that lasts."""
        return (self.node, self.task, *self.topics)


def topic_of(lane: LaneStats) -> str:
    """Return the topic of a lane, or of the partition of it that was measured."""
    return lane.topic if lane.partition < 0 else topics_of_lane(lane.topic, lane.partition + 1)[-1]


def blocked_lanes(lanes: Iterable[LaneStats]) -> Iterator[Incident]:
    """Yield an incident for each subscription that is blocked by unacknowledged messages."""
    for topic in sorted(topic_of(lane) for lane in lanes if lane.blocked):
        yield Incident(f"subscription of {topic} is blocked by unacknowledged messages", topics=(topic,))


def stuck_lanes(stuck: Iterable[TaskView], lanes: Iterable[LaneStats], *, all_answered: bool) -> Iterator[Incident]:
    """Yield the incidents of tasks without progress whose lanes have a backlog.

    stuck: tasks that workers could send and get nothing of. A lane that no broker reports counts if some broker did
    not answer: it may be the one that serves it.
    """
    backlogs: dict[str, int] = {}
    for lane in lanes:
        backlogs[lane.topic] = backlogs.get(lane.topic, 0) + lane.backlog
    for task in stuck:
        if backlogs.get(task.lane, 0) > 0 or (task.lane not in backlogs and not all_answered):
            reason = f"task {task.id} has {task.targets.pending:,} targets left and makes no progress"
            yield Incident(reason, task=task.id, topics=tuple(topics_of_lane(task.lane, task.partitions)))


def joined(incidents: Sequence[Incident]) -> Incident:
    """Return one incident for several that were found at once: one archive shows all."""
    first = incidents[0]
    more = f" (and {len(incidents) - 1} more)" if len(incidents) > 1 else ""
    topics = tuple(dict.fromkeys(topic for incident in incidents for topic in incident.topics))
    return Incident(first.reason + more, first.node, first.task, topics)
