"""One installation in memory, except for its workers: lanes, logs, and a view kept by the shipped code and scripts."""

from collections.abc import Mapping, Sequence
from importlib.resources.abc import Traversable

import msgspec

from backends.redis.client import Scripts, lua_folder
from backends.redis.epochs import Epochs
from backends.redis.keys import COUNT_FIELDS, Keys
from backends.redis.registry.registry import Registry
from backends.redis.view import CLAIM_MAX_MS, RedisView, restart_guard
from consumers.upkeep.closing import Closing
from consumers.upkeep.finishing import Finisher
from dispatcher.clock import Clock
from dispatcher.wire.control import ControlRecord
from dispatcher.wire.outcome import OUTCOME_NAMES
from dispatcher.wire.topics import Topics
from lab.simulator.lanes import MemoryBroker
from lab.simulator.logs import MemoryControlLog, MemoryDeadLetters, MemoryOutcomeLog
from lab.simulator.redis.server import MemoryRedis
from quotas.fold import RedisFold
from quotas.ledger import RedisLedger

FIRST_VIEW = "first"
FOLDED_AT_ONCE = 200


def counts_in(values: Sequence[bytes | None]) -> dict[str, int]:
    """Return targets by the name of their outcome, from COUNT_FIELDS."""
    return {name: int(value or 0) for name, value in zip(OUTCOME_NAMES, values, strict=True)}


def view_in(server: MemoryRedis, prefix: str = "world") -> RedisView:
    """Return the view under a prefix of an in-memory Redis."""
    keys = Keys(prefix)
    client = server.client(restart_guard(keys, CLAIM_MAX_MS))
    return RedisView(client, keys, Scripts(client, lua_folder("backends.redis")), f"memory, prefix {prefix}")


class World:
    """An installation whose view is complete from the start and allows any rate.

    The caller decides what is folded, ended and closed, and when. Time moves only with the caller's clock.
    """

    def __init__(
        self,
        clock: Clock,
        topics: Topics | None = None,
        view: RedisView | None = None,
        lua: Traversable | None = None,
    ) -> None:
        """Build the installation.

        `view` is an empty view of a server; the default is one in memory. `lua` replaces the ledger's scripts.
        """
        self.clock = clock
        self.topics = topics or Topics(outcome_partitions=1)
        self.view = view or view_in(MemoryRedis(clock.wall_ms))
        self.registry = Registry(self.view)
        self.epochs = Epochs(self.view)
        self.ledger = RedisLedger(self.view, self.topics, lua)
        self.fold = RedisFold(self.view, lua)
        self.broker = MemoryBroker()
        self.control = MemoryControlLog()
        self.outcomes = MemoryOutcomeLog(self.topics)
        self.dead_letters = MemoryDeadLetters()
        self.finisher = Finisher(self.registry, self.epochs.ready, self.control, clock)
        self.closing = Closing(self.ledger, self.outcomes, self.topics.partition_of, clock, self.finisher.force_end)
        self.begin_view(FIRST_VIEW)
        self.epochs.epoch_announced(FIRST_VIEW, first=True, position="")
        self.view.command("HSET", self.view.keys.epoch, "ready", 1)

    # ------------------------------------------------------------- the view
    def begin_view(self, epoch: str, wait_ms: int = 0) -> None:
        """Begin a view that grants nothing before wait_ms have passed and its marks are read."""
        self.view.command("DEL", self.view.keys.epoch)
        self.epochs.begin_epoch(epoch, wait_ms, self.topics.outcome_partitions)

    def write(self, record: ControlRecord) -> list[str]:
        """Store a record in the control topic and apply it. Return the task if all its targets now have outcomes."""
        return self.read_control(self.control.append(record), record)

    def read_control(self, position: str, record: ControlRecord) -> list[str]:
        """Apply a record of the control topic, and move its cursor there, as a fold does."""
        self.registry.control.apply(position, record)
        self.view.command("HSET", self.view.keys.control, "cursor", position)
        task = getattr(record, "task", "")
        return self.registry.control.complete_among([task] if task else [])

    # ------------------------------------------------------------- work that one worker does for all
    def fold_outcomes(self) -> list[str]:
        """Fold all records of the outcome topics. Return the tasks whose targets now all have outcomes."""
        finished: dict[str, None] = {}
        for partition in range(self.topics.outcome_partitions):
            cursor = self.fold.cursor(partition)
            while entries := self.outcomes.read(partition, cursor)[:FOLDED_AT_ONCE]:
                positions, records = zip(*entries, strict=True)
                result = self.fold.apply(partition, cursor, positions[-1], records, positions)
                if not result.applied:
                    break
                finished.update(dict.fromkeys(result.finished))
                cursor = result.cursor
        return list(finished)

    def do_housekeeping(self) -> None:
        """Record overdue claims in the outcome topics, and close cancelled and expired tasks."""
        self.closing.end_claims()
        self.closing.close_tasks()

    # ------------------------------------------------------------- counts
    def counts(self, task: str) -> dict[str, int]:
        """Return the task's targets by the name of their outcome."""
        return counts_in(self.view.command("HMGET", self.view.keys.task(task), *COUNT_FIELDS))

    def stats(self) -> Mapping[str, int]:
        """Return the ledger's counters that are not 0."""
        return {name: count for name, count in self.view.stats().items() if count}

    def held(self) -> dict[str, int]:
        """Return the granted targets that live claims hold, by tier."""
        names = self.view.command("ZRANGE", self.view.keys.claims, 0, -1)
        held: dict[str, int] = {}
        for name in names:
            packed = self.view.command("GET", self.view.keys.claim(*name.decode().split("|", 1)))
            for _, _, _, count, tier, size in msgspec.msgpack.decode(packed)[2]:
                if tier:
                    held[tier] = held.get(tier, 0) + count * size
        return held
