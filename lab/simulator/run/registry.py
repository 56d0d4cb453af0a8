"""The lanes of a run, and the workers that hold them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from dispatcher.model.tier import MILLI, Tier
from dispatcher.model.view import TaskView
from dispatcher.ports import LaneInfo
from dispatcher.wire.lease import LaneKind
from dispatcher.wire.topics import Topics, stable_hash
from lab.simulator.run.audience import SimTask
from lab.simulator.run.worker import SimWorker

RETRY_CHUNK = 100


class LaneDirectory:
    """The lanes of live tasks, and the retry lanes."""

    def __init__(self, views: Mapping[str, TaskView], topics: Topics, seed: int) -> None:
        self._views = views
        self._seed = seed
        self._tasks: dict[str, SimTask] = {}
        self._moved: dict[str, SimTask] = {}
        self._retry = [
            LaneInfo(
                name=lane.topic,
                kind=LaneKind.RETRY,
                tier=str(lane.tier),
                weight=MILLI,
                chunk=RETRY_CHUNK,
                delay_s=lane.delay_s,
            )
            for lane in topics.retry_lanes()
        ]
        self._infos: list[LaneInfo] | None = None
        self._ranks: dict[tuple[str, str], int] = {}

    def add(self, task: SimTask) -> None:
        self._tasks[task.name] = task
        self._infos = None

    def remove(self, task: str) -> None:
        self._tasks.pop(task, None)
        self._moved.pop(task, None)
        self._infos = None

    def move(self, task: str, lane: str) -> None:
        """Move a task from its shared lane to one of its own."""
        self._moved[task] = replace(self._tasks[task], lane=lane, shared=False)
        self._infos = None

    def changed(self) -> None:
        """Drop the cached lanes after a change of tiers or weights."""
        self._infos = None

    def infos(self) -> list[LaneInfo]:
        """Return all lanes, the retry lanes first."""
        if self._infos is None:
            infos: dict[str, LaneInfo] = {}
            shared: dict[str, int] = {}
            for name, task in self._tasks.items():
                weight = round(self._views[name].weight * MILLI)
                if task.shared:
                    weight = shared[task.lane] = shared.get(task.lane, 0) + weight
                infos[task.lane] = task.info(self._views[name], weight)
            for name, task in self._moved.items():
                infos[task.lane] = task.info(self._views[name], round(self._views[name].weight * MILLI))
            self._infos = [*self._retry, *infos.values()]
        return self._infos

    def held_by(self, worker: SimWorker, live: Iterable[SimWorker]) -> Sequence[LaneInfo]:
        """Return the lanes that a worker holds, given the live workers."""
        sees = worker.member.spec.sees
        if sees == "all":
            return self.infos()
        if isinstance(sees, list):
            return [info for info in self.infos() if Tier(info.tier) in sees]
        group = [other for other in live if other.member.spec is worker.member.spec]
        holders = max(1, round(float(sees) * len(group)))
        slots = {other.member.slot: other for other in group}
        return [
            info
            for info in self.infos()
            if info.kind == LaneKind.RETRY or worker in self._holders(info.name, slots, holders)
        ]

    def _holders(self, lane: str, slots: Mapping[str, SimWorker], count: int) -> list[SimWorker]:
        """Choose holders by rendezvous hashing: when a worker joins or leaves, only its lanes change hands."""
        ranked = sorted(slots, key=lambda slot: self._rank(slot, lane))
        return [slots[slot] for slot in ranked[:count]]

    def _rank(self, slot: str, lane: str) -> int:
        rank = self._ranks.get((slot, lane))
        if rank is None:
            rank = self._ranks[slot, lane] = stable_hash(f"{self._seed}/{slot}/{lane}")
        return rank
