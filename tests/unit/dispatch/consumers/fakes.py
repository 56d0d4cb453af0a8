"""Topics and a view in memory, for the fold's tests."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar

from backends.redis.epochs import Epoch, Epochs
from backends.redis.keys import REPORT_MS
from backends.redis.registry.registry import Registry
from backends.redis.registry.task_rows import RowShape
from backends.redis.registry.tasks import TaskTable
from backends.redis.view import RedisView
from dispatcher.model.errors import NotFound, Unreachable
from dispatcher.ports import StoredRecord
from dispatcher.wire.control import ControlRecord, decode_control, encode_control
from dispatcher.wire.outcome import OutcomeRecord, decode_record, encode_record
from tests.actors import DEADLINE_S
from tests.contract.registry_records import change, position, task_record
from tests.contract.registry_records import sealed as sealed_of
from tests.unit.views import LostRedis, view_of
from tests.virtual_clock import VirtualClock

T = TypeVar("T")
COUNT_NAMES = {"cancelled": "cancelled_n"}
"""Fields of a task in Redis that have another name than the outcome."""


@dataclass
class Topic:
    """records: everything stored. broken: reading and writing raise Unreachable."""

    records: list[StoredRecord] = field(default_factory=list)
    broken: bool = False
    opened: list[str | None] = field(default_factory=list)

    def store(self, body: bytes) -> str:
        if self.broken:
            raise Unreachable("Pulsar is gone.")
        self.records.append(StoredRecord(position(len(self.records)), body, ""))
        return self.records[-1].position

    def open(self, after: str | None) -> "Reader":
        self.opened.append(after)
        return Reader(self, after)


class Reader:
    def __init__(self, topic: Topic, after: str | None) -> None:
        self._topic = topic
        self._after = after
        self.closed = False

    def read(self, max_records: int, timeout_s: float) -> Sequence[StoredRecord]:
        if self._topic.broken:
            raise Unreachable("Pulsar is gone.")
        rest = [r for r in self._topic.records if self._after is None or r.position > self._after][:max_records]
        if rest:
            self._after = rest[-1].position
        return rest

    def at_end(self) -> bool:
        return not self._topic.records or (self._after or "") >= self._topic.records[-1].position

    def close(self) -> None:
        self.closed = True


class ControlTopic(Topic):
    """calls: how often something was waited for."""

    calls = 0

    def append(self, record: ControlRecord) -> str:
        return self.append_many([record])[0]

    def append_many(self, records: Sequence[ControlRecord]) -> list[str]:
        self.calls += 1
        return [self.store(encode_control(record)) for record in records]


class Table(Registry):
    """A registry in memory."""

    tasks: "AskedTasks"

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.redis = LostRedis(self.clock.wall_ms)
        self.view = view_of(self.redis)
        super().__init__(self.view)
        self.tasks = AskedTasks(self.view)

    def put(self, task: str, *, sealed: bool = True, pending: int = 0, closed: bool = False, **counts: int) -> None:
        """Store a task. counts: the number of targets by outcome."""
        finals = sum(counts.values())
        self.control.apply(position(0), task_record(task, created_ms=self.clock.wall_ms()))
        if sealed:
            self.control.apply(position(0), sealed_of(task, finals + pending))
        stored = {"finals": finals, "published": finals + pending, "closed": int(closed), **counts}
        fields = [word for name, value in stored.items() for word in (COUNT_NAMES.get(name, name), value)]
        self.view.command("HSET", self.view.keys.task(task), *fields)

    def change(self, task: str, field: str, value: str) -> None:
        self.control.apply(position(0), change(task, field, value))


class AskedTasks(TaskTable):
    """asked: the ids of tasks that were read."""

    def __init__(self, view: RedisView) -> None:
        super().__init__(view)
        self.asked: list[str] = []

    def named(self, tasks: Sequence[str], shape: RowShape[T], *, ended: bool | None = None) -> list[T]:
        self.asked += tasks
        return super().named(tasks, shape, ended=ended)


class MemoryTopics:
    """Topics of lanes, with their backlogs. tries: how often one was to be deleted."""

    def __init__(self, topics: Iterable[str]) -> None:
        self.backlogs = dict.fromkeys(topics, 0)
        self.attached: set[str] = set()
        self.tries = 0

    @property
    def lanes(self) -> list[str]:
        return list(self.backlogs)

    def list_topics(self, namespace: str) -> list[str]:
        return self.lanes

    def backlog(self, topic: str) -> int:
        if topic not in self.backlogs:
            raise NotFound(topic)
        return self.backlogs[topic]

    def delete_topic(self, topic: str) -> bool:
        self.tries += 1
        if topic not in self.attached:
            self.backlogs.pop(topic, None)
        return topic not in self.attached


@dataclass
class OutcomeTopics:
    topics: dict[int, Topic] = field(default_factory=dict)

    def append(self, partition: int, record: OutcomeRecord) -> None:
        self.topics.setdefault(partition, Topic()).store(encode_record(record))


def epoch_of(epoch: str, wait_ms: int = 0, **fields: Any) -> Epoch:
    """Return an epoch that has just begun, but for the given fields."""
    begun: dict[str, Any] = dict.fromkeys(("ready", "announced", "marked", "restoring"), False)
    given: dict[str, Any] = {"started_ms": 0, "partitions": 1, "read": frozenset(), **begun, **fields}
    return Epoch(id=epoch, wait_ms=wait_ms, **given)


class MemoryEpochs(Epochs):
    """The epoch of a view in memory."""

    def __init__(self, clock: VirtualClock) -> None:
        self._view = replace(view_of(clock), address="")

    @property
    def address(self) -> str:
        """Return the address of this Redis."""
        return self._view.address

    @address.setter
    def address(self, address: str) -> None:
        self._view = replace(self._view, address=address)

    @property
    def now(self) -> Epoch | None:
        """Return the epoch, comparable to those of epoch_of: without the time for late reports."""
        found = self.epoch()
        if found is None:
            return None
        wait_ms = max(0, found.wait_ms - REPORT_MS)
        return replace(found, started_ms=0, partitions=1, wait_ms=wait_ms, claim_ms=0)

    @now.setter
    def now(self, epoch: Epoch | None) -> None:
        key, now_ms = self._view.keys.epoch, self._view.now_ms()
        self._view.command("DEL", key)
        if epoch is not None:
            wait_ms = epoch.wait_ms + REPORT_MS if epoch.wait_ms else 0
            stored = asdict(epoch) | {"waits_from_ms": now_ms + epoch.early_ms, "grants_after_ms": now_ms + wait_ms}
            del stored["read"], stored["wait_ms"], stored["early_ms"]
            words = {name: int(value) if isinstance(value, bool) else value for name, value in stored.items()}
            words = {name: value for name, value in words.items() if value != ""}
            self._view.command("HSET", key, *(word for pair in words.items() for word in pair))


def outcome_records(topic: Topic) -> list[OutcomeRecord]:
    return [decode_record(record.body) for record in topic.records]


def control_records(topic: Topic) -> list[ControlRecord]:
    return [decode_control(record.body) for record in topic.records]


def eventually(condition: Callable[[], bool], within_s: float = DEADLINE_S) -> None:
    """Waits for a condition with a deadline."""
    deadline_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline_s, "the condition did not come true in time"
        time.sleep(0.005)
