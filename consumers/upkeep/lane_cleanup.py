"""Create the lanes that envelopes are moved to. Delete lanes: of ended tasks, empty ones, those that a crash left."""

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from backends.pulsar.admin import PulsarAdmin
from backends.redis.registry.registry import Registry
from backends.redis.registry.service import SideLaneTable
from backends.redis.registry.task_rows import LIVE_TASK, TASK_VIEW
from backends.redis.registry.tasks import TaskTable
from dispatcher.clock import Clock
from dispatcher.model.errors import NotFound
from dispatcher.ports import LaneTopics
from dispatcher.retry import Backoff
from dispatcher.wire.topics import side_of_lane, task_of_lane

_log = logging.getLogger(__name__)
ROUND_S = 10.0


@dataclass(frozen=True, kw_only=True)
class CleanupSettings:
    """Settings of the cleanup.

    Waiting lanes are deleted within about `drain_s`, between `slowest` and `fastest` of them per round (of a second). A
    deletion costs the broker 3 ms of a core, which dispatching needs too.
    """

    sweep_s: float = 180.0
    """The time between two sweeps for orphans."""
    grace_s: float = 600.0
    """How long a topic of an unknown task is left alone."""
    retry: Backoff = Backoff(0.5, 10.0)
    """Before the deletion of a lane with a consumer is tried again."""
    drain_s: float = 30.0
    slowest: int = 40
    fastest: int = 200
    at_once: int = 4
    """Maximum concurrent deletions."""


@dataclass
class _Waiting:
    due_s: float
    wait_s: float


@dataclass(eq=False)
class LaneCleaner:
    """Deletes the topics of ended tasks' own lanes; the elected housekeeper runs one round each second."""

    topics: LaneTopics
    tasks: TaskTable
    complete: Callable[[], bool]
    """Whether the view is complete."""
    namespaces: Sequence[str]
    clock: Clock
    settings: CleanupSettings = field(default_factory=CleanupSettings)
    all_read: Callable[[], bool] = lambda: True
    """Whether every control record could be read. A skipped one may be the record of a lane's unknown task."""

    def __post_init__(self) -> None:
        self._tenant = f"persistent://{self.namespaces[0].partition('/')[0]}/"
        """Prefix of the topics that may be deleted: a record may name a topic of another tenant."""
        self.begin()

    def begin(self) -> None:
        """Drop the state of an earlier term, so that the first round sweeps. Call this when the worker takes up the
        job."""
        self._waiting: dict[str, _Waiting] = {}
        self._unknown_since_s: dict[str, float] = {}
        self._noted: set[str] = set()
        self._ended_ms = self.clock.wall_ms()
        self._next_sweep_s = self.clock.monotonic_s()

    def round(self) -> None:
        """Note newly ended tasks, delete what can be deleted, sweep when it is time. Raises Unreachable."""
        self._note_ended()
        if self.clock.monotonic_s() >= self._next_sweep_s:
            self._next_sweep_s = self.clock.monotonic_s() + self.settings.sweep_s
            self.sweep()
        self._delete_due()

    def sweep(self) -> None:
        """Find lanes whose task has ended, or has been unknown for the grace period, and note them for deletion.

        The topics are listed before the view in Redis is checked for completeness. A task is in the control topic
        before its lane is created, so a complete view contains the task of every listed lane, or will within the grace
        period. Raises Unreachable if a broker or Redis does not answer.
        """
        listed = [topic for namespace in self.namespaces for topic in self.topics.list_topics(namespace)]
        lanes = {topic: task for topic in listed if (task := task_of_lane(topic))}
        if not self.complete():
            return
        known = self.tasks.ends(list(lanes.values()))
        ended = [topic for topic, task in lanes.items() if known.get(task) and topic not in self._waiting]
        if ended:
            _log.info("orphan sweep: %d lanes of ended tasks are left over", len(ended))
        self._add(ended)
        self._add(self._long_unknown([topic for topic, task in lanes.items() if task not in known]))

    def _note_ended(self) -> None:
        """Note newly ended tasks. Read the last ten seconds again, since another worker's clock may be behind.

        Ends dated in the future (by a clock that is ahead) do not move the start of the next read.
        """
        now_ms = self.clock.wall_ms()
        recent = self.tasks.ended_since(self._ended_ms - 10_000)
        new = [task for task in recent if task not in self._noted]
        ended = self.tasks.named(new, TASK_VIEW, ended=True)
        self._add(each.lane for each in ended if not each.shared and each.lane.startswith(self._tenant))
        self._ended_ms = max([self._ended_ms, *(each.finished_ms for each in ended if each.finished_ms <= now_ms)])
        self._noted = set(recent)

    def _long_unknown(self, topics: list[str]) -> list[str]:
        """Return lanes that were unknown for the grace period.

        The registry is complete, so such a lane can belong to a task only if this version skipped the task's record.
        """
        now_s = self.clock.monotonic_s()
        self._unknown_since_s = {topic: self._unknown_since_s.get(topic, now_s) for topic in topics}
        old = [topic for topic, since_s in self._unknown_since_s.items() if now_s - since_s >= self.settings.grace_s]
        if old and not self.all_read():
            _log.warning(
                "orphan sweep: %s and %d more belong to no known task; they are kept, because skipped control records "
                "may describe their tasks (`fairlane registry status`)",
                old[0],
                len(old) - 1,
            )
            return []
        for topic in old:
            _log.warning("orphan sweep: %s belongs to no task in the control topic; deleting it", topic)
        return old

    def _add(self, topics: Iterable[str]) -> None:
        now_s = self.clock.monotonic_s()
        for topic in topics:
            self._waiting.setdefault(topic, _Waiting(now_s, self.settings.retry.first_s))

    def _delete_due(self) -> None:
        """Delete as many lanes as the pace allows, `at_once` of them concurrently. A failed one is tried again later
        and does not stop the others."""
        now_s, settings = self.clock.monotonic_s(), self.settings
        due = [topic for topic, waiting in self._waiting.items() if waiting.due_s <= now_s]
        count = min(settings.fastest, max(settings.slowest, round(len(due) / settings.drain_s)))
        if not due:
            return
        with ThreadPoolExecutor(settings.at_once, thread_name_prefix="lane-cleaner") as pool:
            deletions = {topic: pool.submit(self.topics.delete_topic, topic) for topic in due[:count]}
        errors = [error for deletion in deletions.values() if (error := deletion.exception()) is not None]
        for topic, deletion in deletions.items():
            self._note_deletion(topic, gone=deletion.exception() is None and deletion.result(), now_s=now_s)
        if errors:
            raise errors[0]

    def _note_deletion(self, topic: str, *, gone: bool, now_s: float) -> None:
        if gone:
            del self._waiting[topic]
            return
        waiting = self._waiting[topic]
        waiting.due_s = now_s + waiting.wait_s
        waiting.wait_s = self.settings.retry.after(waiting.wait_s)


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
