"""The names of all topics. No other module makes them.

The name of a task's lane contains no tier, since a task may change its tier, and namespaces are numbered. So a task
keeps its lane when its controls change.
"""

import re
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from dispatcher.model.tier import TIERS, Tier

SUBSCRIPTION = "dispatch"
NAME_PATTERN = "[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
"""Name of an app or a channel."""
TASK_PATTERN = "[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
"""A task's id, which is part of its topic's name."""
RETRY_STEPS_S: tuple[int, ...] = (1, 5, 30, 120, 600)
"""Delay steps of the retry lanes, in seconds; delays round up to one."""
_PARTITION = re.compile(r"-partition-\d+$")
OWN_LANE_ABOVE = 5_000
"""A low task with more expected targets than this gets its own lane."""


def stable_hash(text: str) -> int:
    """Return a hash that is the same on every machine and in every process."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


class RetryLane(NamedTuple):
    """A lane for targets that are tried again."""

    topic: str
    tier: Tier
    delay_s: int
    """Its delay step."""


@dataclass(frozen=True)
class Topics:
    """Topic names for one tenant."""

    tenant: str = "fairlane"
    namespaces: int = 16
    """Namespaces for the lanes of tasks."""
    shared_lanes: int = 8
    """Lanes shared by low tasks."""
    outcome_partitions: int = 4
    """Outcome topics."""

    def task_namespaces(self) -> list[str]:
        return [f"{self.tenant}/tasks-{i:02d}" for i in range(self.namespaces)]

    @property
    def shared_namespace(self) -> str:
        """Namespace of the shared, the side and the retry lanes."""
        return f"{self.tenant}/shared"

    @property
    def system_namespace(self) -> str:
        """Namespace of the control, outcome and dead-letter topics; they have retention."""
        return f"{self.tenant}/system"

    def all_namespaces(self) -> list[str]:
        return [*self.task_namespaces(), self.shared_namespace, self.system_namespace]

    def own_lane(self, task: str) -> str:
        number = stable_hash(task) % self.namespaces
        return f"persistent://{self.tenant}/tasks-{number:02d}/{task}"

    def shared_lane(self, number: int) -> str:
        return f"persistent://{self.shared_namespace}/low-{number}"

    def shared_lane_of(self, task: str) -> str:
        return self.shared_lane(stable_hash(task) % self.shared_lanes)

    def side_lane(self, app: str, channel: str) -> str:
        """Return the lane for small low tasks of one app on one channel that may not use a shared lane."""
        return f"persistent://{self.shared_namespace}/side.{app}~{channel}"

    def retry_lane(self, tier: Tier, step_s: int) -> str:
        return f"persistent://{self.shared_namespace}/retry-{tier}-{step_s}s"

    def retry_lanes(self) -> "list[RetryLane]":
        return [RetryLane(self.retry_lane(tier, step), tier, step) for tier in TIERS for step in RETRY_STEPS_S]

    def standing_lanes(self) -> list[str]:
        """Return the lanes that always exist: the shared and the retry lanes."""
        return [self.shared_lane(n) for n in range(self.shared_lanes)] + [lane.topic for lane in self.retry_lanes()]

    @property
    def control(self) -> str:
        return f"persistent://{self.system_namespace}/control"

    def outcomes(self, partition: int) -> str:
        """Return an outcome topic. These are numbered plain topics: each is folded in order, with its own cursor."""
        return f"persistent://{self.system_namespace}/outcomes-{partition}"

    def partition_of(self, task: str) -> int:
        return stable_hash("outcomes/" + task) % self.outcome_partitions if self.outcome_partitions > 1 else 0

    @property
    def dead_letters(self) -> str:
        return f"persistent://{self.system_namespace}/dead-letters"

    @property
    def snapshots(self) -> str:
        """Prefix of the names of all snapshots of the fold."""
        return f"persistent://{self.system_namespace}/snapshot-"

    def snapshot(self, number: str) -> str:
        """Return the topic of one snapshot; numbers sort by time."""
        return f"{self.snapshots}{number}"

    def system_topics(self) -> list[str]:
        return [self.control, self.dead_letters, *(self.outcomes(p) for p in range(self.outcome_partitions))]


def topics_of_lane(lane: str, partitions: int) -> list[str]:
    """Return the topics that hold a lane: itself, or its partitions, as Pulsar names them."""
    return [f"{lane}-partition-{number}" for number in range(partitions)] if partitions else [lane]


def lane_of_topic(topic: str) -> str:
    """Return the lane that a topic or a partition belongs to. (No task's id ends like a partition.)"""
    return _PARTITION.sub("", topic)


def task_of_lane(topic: str) -> str | None:
    """Return the task that owns a lane, or None for a shared, retry or system topic."""
    namespace, _, name = topic.removeprefix("persistent://").rpartition("/")
    return name if namespace.rpartition("/")[2].startswith("tasks-") else None


def side_of_lane(topic: str) -> tuple[str, str] | None:
    """Return app and channel of a side lane, or None for any other topic."""
    name = topic.rpartition("/")[2]
    if task_of_lane(topic) is not None or not name.startswith("side."):
        return None
    app, _, channel = name.removeprefix("side.").partition("~")
    return app, channel
