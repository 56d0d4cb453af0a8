"""Services whose tasks have more targets than can be sent, and what must hold of every ledger at any time."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from dispatcher.model.tier import MILLI, TIERS
from tests.contract.law_service import LawService, Work
from tests.contract.ledger_worlds import LawWorld, own_lane

MOST = 1 << 51
"""Numbers in pools are below this; doubles hold whole ones exactly up to four times as much."""
OWNED = (
    *("app:", "task:", "tasks", "index", "lane:", "globals", "epoch", "stats", "feed", "version", "test-clock"),
    *("claims", "claim:", "fold:", "control", "touched:", "final:", "open:", "sides", "paused"),
)
"""Keys of the registry and of the fold. Keys of tombstones and deleted lanes are removed by other chores."""


class Backlog(LawService):
    """Tasks of one envelope size with more targets than can be sent. held: worker -> tasks it holds the lanes of.
    period_ms: worker -> time between its calls."""

    def __init__(
        self,
        world: LawWorld,
        held: Mapping[str, Sequence[str]],
        period_ms: Mapping[str, int],
        *,
        size: int = 1,
        ask_targets: int = 400,
        seed: int = 1,
    ) -> None:
        super().__init__(world, seed, ask_targets)
        self._size = size
        for worker, period in period_ms.items():
            self.join(worker, period, [])
        self.hold(held)

    def hold(self, held: Mapping[str, Sequence[str]]) -> None:
        """From now on each worker holds the lanes of these tasks."""
        for worker, tasks in held.items():
            self.holds[worker] = list(tasks)
            for task in tasks:
                self.works.setdefault(task, Work(name=task, tier="high", size=self._size, lane=own_lane(task)))

    def run_until(self, until_ms: int) -> None:
        self.run(until_ms - self.now_ms)

    def shares(self, from_ms: int, to_ms: int) -> dict[str, float]:
        """Parts of what was granted in a time, by the tasks' names without their number: the tiers."""
        tiers = self.sums(from_ms, to_ms, lambda dose: dose.task.rstrip("0123456789"))
        return {tier: targets / tiers.total() for tier, targets in tiers.items()}

    def most_in(self, window_ms: int) -> int:
        """The most targets granted in any window of this length."""
        most = held = start = 0
        for dose in self.doses:
            held += dose.targets
            while self.doses[start].at_ms <= dose.at_ms - window_ms:
                held -= self.doses[start].targets
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
    return Backlog(world, held=dict.fromkeys(names, tasks), period_ms=dict.fromkeys(names, period_ms), **more)


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
