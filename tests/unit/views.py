"""Views in memory: the product's own code and scripts over a Redis in this process."""

import threading
from collections.abc import Sequence
from typing import Any

import redis

from backends.redis.registry.registry import Registry
from backends.redis.registry.service import RegistryState, ServiceTable
from backends.redis.registry.task_rows import IDLE_TASK, IdleTask, LiveTask, RowShape
from backends.redis.registry.tasks import Page, TaskSelection, TaskTable
from backends.redis.view import RedisView
from backends.redis.workers import Workers
from dispatcher.model.flow_pause import FlowPause
from dispatcher.model.view import Globals, TaskView, WorkerBeat
from lab.simulator.redis.commands import Answer
from lab.simulator.redis.server import MemoryRedis
from lab.simulator.world import view_in
from tests.virtual_clock import VirtualClock


class LostRedis(MemoryRedis):
    """A server that can be cut off."""

    gone = False
    asked = 0
    """The number of commands, including those that were lost."""
    _one_by_one = threading.RLock()
    """A server does one command after another, for any number of threads."""

    def call(self, words: Sequence[bytes]) -> Answer:
        with self._one_by_one:
            self.asked += 1
            if self.gone:
                raise redis.ConnectionError("cut off")
            return super().call(words)


def view_of(server: MemoryRedis | VirtualClock) -> RedisView:
    """Return the empty view of a server, or of a server of its own with this clock."""
    return view_in(server if isinstance(server, MemoryRedis) else MemoryRedis(server.wall_ms))


class FixedTasks(TaskTable):
    """Tasks as a test gives them, in the shape that their reader asks for.

    named_ids: those that were read by id. reads: how often pages, or all live tasks, were read.
    """

    def __init__(self, *tasks: TaskView | LiveTask) -> None:
        self.known: dict[str, Any] = {task.id: task for task in tasks}
        self.idle: list[IdleTask] = []
        self.named_ids: list[str] = []
        self.reads = 0
        self.now_ms = 0

    def named(self, tasks: Sequence[str], shape: RowShape[Any], *, ended: bool | None = None) -> list[Any]:
        self.named_ids += tasks
        return [self.known[task] for task in tasks if task in self.known]

    def page(
        self,
        selection: TaskSelection,
        shape: RowShape[Any],
        limit: int | None = 100,
        cursor: str | None = None,
        max_looks: int | None = None,
    ) -> Page[Any]:
        self.reads += 1
        names = sorted(self.known)
        start = 0 if cursor is None else sum(name <= cursor for name in names)
        page = names[start:][:limit]
        is_last = start + len(page) >= len(names)
        return Page(self.now_ms, [self.known[name] for name in page], None if is_last else page[-1])

    def live(self, shape: RowShape[Any]) -> list[Any]:
        self.reads += 1
        return list(self.idle if shape is IDLE_TASK else self.known.values())


class FixedService(ServiceTable):
    """The state of the service as a test gives it."""

    def __init__(self, capacity: int = 0, now_ms: int = 0) -> None:
        self.capacity = capacity
        self.time_ms = now_ms
        self.number = 1
        self.sides: frozenset[str] = frozenset()
        self.paused: frozenset[str] = frozenset()
        self.flows: dict[str, FlowPause] = {}

    def globals(self) -> Globals:
        weights: dict[str, float] = {"high": 6, "medium": 3, "low": 1}
        paused = {flow: entry for flow, entry in self.flows.items() if entry.is_open(self.now_ms())}
        return Globals(capacity=self.capacity, tier_weights=weights, flow_pauses=paused)

    def now_ms(self) -> int:
        return self.time_ms

    def read_state(self) -> RegistryState:
        return RegistryState(self.now_ms(), self.number, self.sides, self.paused, self.flows)


class FixedRegistry(Registry):
    """A registry of parts that a test gives."""

    tasks: FixedTasks
    service: FixedService

    def __init__(self, tasks: FixedTasks, service: FixedService) -> None:
        self.tasks = tasks
        self.service = service


class FixedWorkers(Workers):
    """Heartbeats as a test gives them."""

    def __init__(self, *beats: WorkerBeat) -> None:
        self.beats = list(beats)

    def workers(self) -> list[WorkerBeat]:
        return self.beats
