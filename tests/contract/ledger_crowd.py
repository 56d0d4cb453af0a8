"""Workers that ask a ledger for leases, each in its own rhythm, under a clock that does not wait."""

import heapq
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from dispatcher.model.tier import MILLI, TIERS
from dispatcher.wire.lease import LaneAsk, Status
from tests.contract.ledger_worlds import LawWorld, ask, own_lane, want

DEMAND_MS = 400
MOST = 1 << 51
"""Numbers in pools are below this; doubles hold whole ones exactly up to four times as much."""
OWNED = (
    *("app:", "task:", "tasks", "index", "lane:", "globals", "epoch", "stats", "feed", "version", "test-clock"),
    *("claims", "claim:", "fold:", "control", "touched:", "final:", "open:", "sides", "paused"),
)
"""Keys of the registry and of the fold. Keys of tombstones and deleted lanes are removed by other chores."""


class Grant(NamedTuple):
    at_ms: int
    task: str
    targets: int


@dataclass(kw_only=True)
class Backlog:
    """Tasks of one envelope size with more targets than can be sent. held: worker -> tasks it holds the lanes of.
    period_ms: worker -> time between its calls."""

    world: LawWorld
    held: Mapping[str, Sequence[str]]
    period_ms: Mapping[str, int]
    size: int = 1
    ask_targets: int = 400
    seed: int = 1
    grants: list[Grant] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        self._next: Counter[str] = Counter()
        self._numbers: Counter[str] = Counter()
        self._now_ms = 0
        self.left: dict[str, int] = defaultdict(lambda: 1 << 40)
        self._calls = [(self._rng.uniform(0, period), worker) for worker, period in self.period_ms.items()]
        heapq.heapify(self._calls)

    @property
    def tasks(self) -> list[str]:
        return list(dict.fromkeys(task for tasks in self.held.values() for task in tasks))

    def run_until(self, until_ms: int) -> None:
        """Lets the workers ask until this time."""
        while self._calls[0][0] < until_ms:
            at_ms, worker = heapq.heappop(self._calls)
            self._advance(int(at_ms))
            self._call(worker)
            heapq.heappush(self._calls, (at_ms + self.period_ms[worker] * self._rng.uniform(0.8, 1.2), worker))

    def stop(self, workers: Sequence[str]) -> None:
        """These die: they ask no more, and what they were granted is spent. One is left."""
        self._calls = [call for call in self._calls if call[1] not in workers] or self._calls[:1]
        heapq.heapify(self._calls)

    def _advance(self, to_ms: int) -> None:
        self.world.advance(to_ms - self._now_ms)
        self._now_ms = to_ms

    def _call(self, worker: str) -> None:
        tasks = [task for task in self.held[worker] if self.left[task] > 0]
        self._numbers[worker] += 1
        asks = [self._ask(task) for task in tasks]
        answer = self.world.lease(self._numbers[worker], *asks, worker=worker, demand_ms=DEMAND_MS)
        for task, wants in zip(tasks, answer.lanes, strict=True):
            for piece in wants[0]:
                if piece.status == Status.GRANTED:
                    self._next[task] += piece.count
                    self.left[task] -= piece.count * self.size
                    self.grants.append(Grant(self._now_ms, task, piece.count * self.size))

    def _ask(self, task: str) -> LaneAsk:
        targets = min(self.ask_targets, self.left[task])
        wanted = want(task, self._next[task], max(targets // self.size, 1), size=self.size)
        return ask(own_lane(task), wanted, demand=min(2_000, self.left[task]))

    def sums(self, from_ms: int, to_ms: int) -> Counter[str]:
        """Targets granted in a time, by task."""
        granted: Counter[str] = Counter()
        for grant in self.grants:
            if from_ms <= grant.at_ms < to_ms:
                granted[grant.task] += grant.targets
        return granted

    def shares(self, from_ms: int, to_ms: int) -> dict[str, float]:
        """Parts of what was granted in a time, by the tasks' names without their number: the tiers."""
        tiers: Counter[str] = Counter()
        for task, targets in self.sums(from_ms, to_ms).items():
            tiers[task.rstrip("0123456789")] += targets
        return {tier: targets / tiers.total() for tier, targets in tiers.items()}

    def most_in(self, window_ms: int) -> int:
        """The most targets granted in any window of this length."""
        most = held = start = 0
        for grant in self.grants:
            held += grant.targets
            while self.grants[start].at_ms <= grant.at_ms - window_ms:
                held -= self.grants[start].targets
                start += 1
            most = max(most, held)
        return most


def add_tasks(world: LawWorld, lanes: Mapping[str, int], **fields: object) -> dict[str, list[str]]:
    """Add this number of tasks to each tier, named by tier and number."""
    tasks = {tier: [f"{tier}{number}" for number in range(count)] for tier, count in lanes.items()}
    for tier, names in tasks.items():
        for name in names:
            world.add(name, tier, **{"weight": MILLI, **fields})
    return tasks


def crowd_of(
    world: LawWorld, lanes: Mapping[str, int], *, rate: int = 2_000, workers: int = 2, period_ms: int = 100, **more: Any
) -> Backlog:
    """Workers that each hold the lanes of this number of tasks in each tier."""
    tasks = [task for names in add_tasks(world, lanes).values() for task in names]
    world.set_capacity(rate)
    names = [f"w{number}" for number in range(workers)]
    return Backlog(world=world, held=dict.fromkeys(names, tasks), period_ms=dict.fromkeys(names, period_ms), **more)


def jain(sums: Sequence[int]) -> float:
    """Jain's index: 1 when all are equal."""
    return sum(sums) ** 2 / (len(sums) * sum(value * value for value in sums))


def assert_tallied(world: LawWorld) -> None:
    """Check that the ledger accounts for every target of every tier that was ever granted."""
    stats, held = world.stats(), world.held()
    for tier in TIERS:
        ends = [stats.get(f"{end}:{tier}", 0) for end in ("used", "returned", "expired")]
        assert stats.get(f"granted:{tier}", 0) == sum(ends) + held.get(tier, 0), tier


def assert_whole(world: LawWorld) -> None:
    """All that is counted in pools are whole numbers that doubles hold exactly."""
    for name, number in _pool_numbers(world):
        assert number.lstrip("-").isdigit(), f"{name} is {number}"
        assert abs(int(number)) < MOST, f"{name} is {number}"


def _fields(world: LawWorld, key: bytes) -> list[tuple[bytes, bytes]]:
    return list(cast("dict[bytes, bytes]", world.view.client.hgetall(key)).items())


def _pool_numbers(world: LawWorld) -> Iterator[tuple[str, str]]:
    client, prefix = world.view.client, world.view.keys.prefix
    for key in client.scan_iter(f"{prefix}:pool:*"):
        for name, value in _fields(world, key):
            yield f"{name!r} of {key!r}", value.decode()
    for key in client.scan_iter(f"{prefix}:vt:*"):
        for lane, value in _fields(world, key):
            for word in value.decode().split(" ")[1:]:
                yield f"{lane!r} of {key!r}", word


def assert_owned(world: LawWorld) -> None:
    """Every key there is in Redis expires by itself, or somebody takes it away."""
    prefix, asked = world.view.keys.prefix, world.view.client.pipeline(transaction=False)
    names = [key.decode().removeprefix(f"{prefix}:") for key in world.view.client.scan_iter(f"{prefix}:*", 1_000)]
    unowned = [name for name in names if not name.startswith(OWNED)]
    for name in unowned:
        asked.pttl(f"{prefix}:{name}")
    lasting = [name for name, ttl_ms in zip(unowned, asked.execute(), strict=True) if ttl_ms == -1]
    assert not lasting, f"neither expire nor have an owner: {lasting}"
