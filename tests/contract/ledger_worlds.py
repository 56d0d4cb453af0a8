"""The ledger and the fold with all they need, in memory and in a real Redis, under a clock that tests move."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

import msgspec

from backends.keys import Keys
from backends.redis_client import Scripts, lua_folder
from backends.redis_view import RedisView, open_view
from backends.registry import Registry
from backends.settings import RedisSettings
from dispatcher.clock import VirtualClock
from dispatcher.control import FORMAT, ControlChange, ControlRecord, Finished, GlobalChange, Sealed, TaskRecord
from dispatcher.lease import Closable, LaneAsk, LaneKind, LeaseAnswer, LeaseRequest, Piece, Want
from dispatcher.memory.fold import MemoryFold
from dispatcher.memory.ledger import MemoryLedger
from dispatcher.memory.view import MemoryView
from dispatcher.outcome import FORMAT as RECORD_FORMAT
from dispatcher.outcome import EpochMark, Mixed, OutcomeRecord, Outcomes, Run, encode_record
from dispatcher.ports import Fold, FoldResult
from dispatcher.tier import MILLI, Tier
from dispatcher.topics import Topics
from dispatcher.why import counted_of
from quotas.fold import RedisFold
from quotas.ledger import RedisLedger
from simulator.server import MemoryRedis
from tests.contract.moved_clock import ClockKey

EPOCH = "memory"
TOPICS = Topics(outcome_partitions=2)
COUNTS = ("sent", "invalid", "failed", "expired", "cancelled")
COUNT_FIELDS = [*COUNTS[:-1], "cancelled_n"]


class Ledger(Protocol):
    """What the memory ledger and the one in Redis have in common."""

    def lease(self, request: LeaseRequest) -> LeaseAnswer: ...
    def due_claims(self) -> dict[int, list[str]]: ...
    def lengthen_claims(self, step_ms: int) -> None: ...
    def closable(self) -> list[Closable]: ...


class Look(NamedTuple):
    """What a view knows of a task: as `World.counts`, `claims` and `why` say."""

    counts: dict[str, int]
    claims: int
    why: dict[str, int]


class World(Protocol):
    ledger: Ledger
    fold: Fold
    clock: VirtualClock

    def advance(self, ms: int) -> None: ...
    def beat(self, worker: str) -> None: ...
    def apply(self, record: ControlRecord) -> None: ...
    def counts(self, task: str) -> dict[str, int]: ...
    def claims(self, task: str) -> int: ...
    def stats(self) -> dict[str, int]: ...
    def held(self) -> dict[str, int]: ...
    def sides(self) -> set[str]: ...
    def why(self, task: str) -> dict[str, int]: ...
    def look(self, tasks: Sequence[str]) -> dict[str, Look]: ...
    def forget_answer(self, worker: str) -> None: ...
    def restart_epoch(self, grants_after_ms: int) -> None: ...
    def ready(self) -> bool: ...


class MemoryWorld:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.view = MemoryView(self.clock, TOPICS)
        self.ledger: Ledger = MemoryLedger(self.view)
        self.fold: Fold = MemoryFold(self.view)

    def advance(self, ms: int) -> None:
        self.clock.advance(ms / 1000)

    def beat(self, worker: str) -> None:
        self.view.beats[worker] = self.clock.wall_ms()

    def apply(self, record: ControlRecord) -> None:
        self.view.apply(record)

    def counts(self, task: str) -> dict[str, int]:
        return dict(zip(COUNTS, self.view.task(task).counts, strict=True))

    def claims(self, task: str) -> int:
        return self.view.task(task).claims

    def stats(self) -> dict[str, int]:
        return {name: count for name, count in self.view.stats.items() if count}

    def held(self) -> dict[str, int]:
        return _held(
            (run.paid, run.count * run.size) for claim in self.view.claims.values() for run in claim.runs if run.paid
        )

    def sides(self) -> set[str]:
        return self.view.sides

    def why(self, task: str) -> dict[str, int]:
        return dict(self.view.causes.get(task, {}))

    def look(self, tasks: Sequence[str]) -> dict[str, Look]:
        return {task: Look(self.counts(task), self.claims(task), self.why(task)) for task in tasks}

    def forget_answer(self, worker: str) -> None:
        del self.view.calls[worker]

    def restart_epoch(self, grants_after_ms: int) -> None:
        self.view.begin_epoch("again", grants_after_ms)

    def ready(self) -> bool:
        return self.view.epoch.ready


class Server(NamedTuple):
    """What all worlds of one server share. The scripts are the real ones but for their clock, read once."""

    view: RedisView
    ledger: RedisLedger
    fold: RedisFold
    clock_key: "ClockKey | ServerClock"


class RedisWorld:
    """One prefix of a real server."""

    def __init__(self, server: Server) -> None:
        self.view = server.view
        self.clock = VirtualClock()
        self.registry = Registry(server.view)
        self.ledger: Ledger = server.ledger
        self.fold: Fold = server.fold
        self._clock_key = server.clock_key
        self._position = 0
        self._set_epoch(EPOCH, "1", 0)
        self.advance(0)

    def _set_epoch(self, epoch: str, ready: str, grants_after_ms: int) -> None:
        fields = {"id": epoch, "ready": ready, "grants_after_ms": grants_after_ms, "partitions": 2}
        fields["run_id"] = self.view.run_id()
        self.view.client.delete(self.view.keys.epoch)
        self.view.client.hset(self.view.keys.epoch, mapping=fields)

    def advance(self, ms: int) -> None:
        self.clock.advance(ms / 1000)
        self._clock_key.set(self.clock.wall_ms())

    def beat(self, worker: str) -> None:
        self.view.client.zadd(self.view.keys.workers, {worker: self.clock.wall_ms()})

    def apply(self, record: ControlRecord) -> None:
        self._position += 1
        position = f"{1:020d}:{self._position:020d}:{0:06d}"
        if isinstance(record, EpochMark):
            self.registry.move_control_cursor(self.registry.control_cursor(), position, record.epoch, marked=True)
        else:
            self.registry.apply(position, record)

    def counts(self, task: str) -> dict[str, int]:
        return _counted(self.view.client.hmget(self.view.keys.task(task), COUNT_FIELDS))

    def claims(self, task: str) -> int:
        return int(self.view.client.hget(self.view.keys.task(task), "claims") or 0)

    def stats(self) -> dict[str, int]:
        return {name: count for name, count in self.view.stats().items() if count}

    def held(self) -> dict[str, int]:
        keys, client = self.view.keys, self.view.client
        names = client.zrange(keys.claims, 0, -1)
        packed = client.mget([keys.claim(*name.decode().split("|", 1)) for name in names]) if names else []
        runs = [run for claim in packed for run in msgspec.msgpack.decode(claim)[2]]
        return _held((run[4], run[3] * run[5]) for run in runs if run[4])

    def sides(self) -> set[str]:
        return {name.decode() for name in self.view.client.smembers(f"{self.view.keys.prefix}:sides")}

    def why(self, task: str) -> dict[str, int]:
        return dict(self.registry.why(task).causes)

    def look(self, tasks: Sequence[str]) -> dict[str, Look]:
        """In one round trip."""
        pipeline = self.view.client.pipeline(transaction=False)
        for task in tasks:
            pipeline.hmget(self.view.keys.task(task), [*COUNT_FIELDS, "claims", "why"])
        return {
            task: Look(_counted(values), int(claims or 0), counted_of((why or b"").decode()))
            for task, (*values, claims, why) in zip(tasks, pipeline.execute(), strict=True)
        }

    def forget_answer(self, worker: str) -> None:
        """As after a minute of Redis' own time."""
        assert self.view.client.delete(self.view.keys.call(worker))

    def restart_epoch(self, grants_after_ms: int) -> None:
        self._set_epoch("again", "0", grants_after_ms)

    def ready(self) -> bool:
        return bool(self.view.client.hget(self.view.keys.epoch, "ready") == b"1")


def _counted(values: Sequence[bytes | None]) -> dict[str, int]:
    return {name: int(value or 0) for name, value in zip(COUNTS, values, strict=True)}


def _held(paid: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Targets by tier that live claims hold."""
    held: Counter[str] = Counter()
    for tier, targets in paid:
        held[tier] += targets
    return dict(held)


@contextmanager
def redis_worlds(url: str, lua: Path, prefix: str = "law") -> Iterator[Callable[[], RedisWorld]]:
    """Makes fresh worlds, one after the other, under one prefix."""
    view = open_view(RedisSettings(url=url, prefix=prefix))
    place = urlsplit(url)
    clock_key = ClockKey((place.hostname or "127.0.0.1", place.port or 6379), f"{view.keys.prefix}:test-clock")
    server = Server(view, RedisLedger(view, TOPICS, lua), RedisFold(view, lua), clock_key)

    def fresh() -> RedisWorld:
        view.wipe()
        return RedisWorld(server)

    try:
        yield fresh
    finally:
        view.wipe()
        clock_key.close()
        view.close()


class ServerClock:
    """The time of a server in memory."""

    def __init__(self) -> None:
        self._wall_ms = 0
        self.on_set: Callable[[int], object] = lambda _: None

    def now_ms(self) -> int:
        return self._wall_ms

    def set(self, wall_ms: int) -> None:
        self._wall_ms = wall_ms
        self.on_set(wall_ms)


def in_process_worlds(prefix: str = "law", lua: Path | None = None) -> Callable[[], RedisWorld]:
    """Make worlds over a Redis in this process, which runs the scripts that ship. lua: others instead, with a clock
    that is a key."""
    clock = ServerClock()
    server = MemoryRedis(clock.now_ms)
    client = server.client()
    if lua is not None:
        clock.on_set = lambda wall_ms: client.set(f"{prefix}:test-clock", wall_ms)
    view = RedisView(client, Keys(prefix), Scripts(client, lua_folder("backends"), on_restart=lambda: None))
    shared = Server(view, RedisLedger(view, TOPICS, lua), RedisFold(view, lua), clock)

    def fresh() -> RedisWorld:
        server.store.clear()
        return RedisWorld(shared)

    return fresh


# ---------------------------------------------------------------- records and requests


Worlds = Callable[[], World]


@cache
def own_lane(task: str) -> str:
    return TOPICS.own_lane(task)


SHARED_LANE = TOPICS.shared_lane(0)


def retry_lane(tier: str = "high") -> str:
    return TOPICS.retry_lane(Tier(tier), 1)


def task_record(task: str, tier: str = "high", *, shared: bool = False, **fields: object) -> TaskRecord:
    record = TaskRecord(
        format=FORMAT,
        task=task,
        app="shop",
        tier=Tier(tier),
        channel="null",
        message=msgspec.Raw(msgspec.msgpack.encode({"title": "Sale"})),
        lane=SHARED_LANE if shared else own_lane(task),
        shared=shared,
        chunk=1,
        expected_targets=-1,
        weight=MILLI,
        cap=0,
        start_ms=0,
        expires_ms=0,
        hold_until_sealed=False,
        max_attempts=5,
        created_ms=1_700_000_000_000,
        digest="d",
    )
    return msgspec.structs.replace(record, **fields)


def change(task: str, field: str, value: str) -> ControlChange:
    return ControlChange(FORMAT, task, field, value, 0)


def setting(field: str, value: str) -> GlobalChange:
    return GlobalChange(FORMAT, field, value, 0)


def capacity(targets_s: int) -> GlobalChange:
    return setting("capacity", str(targets_s))


def sealed(task: str, targets: int, writers: Sequence[str] = ("0",)) -> Sealed:
    return Sealed(FORMAT, task, targets, 0, "", list(writers))


def finished(task: str, state: str = "completed") -> Finished:
    return Finished(FORMAT, task, state, [0, 0, 0, 0, 0], 1)


def want(task: str, first: int, count: int, *, size: int = 1, attempt: int = 0, writer: str = "0") -> Want:
    return Want(task, writer, attempt, first, count, size, size)


def ask(
    lane: str,
    *wants: Want,
    kind: LaneKind = LaneKind.OWN,
    tier: str = "",
    demand: int = 0,
    waiting: bool = False,
) -> LaneAsk:
    return LaneAsk(lane, kind, tier, demand, list(wants), waiting)


def ask_own(task: str, first: int, count: int, **more: int) -> LaneAsk:
    return ask(own_lane(task), want(task, first, count, **more))  # type: ignore[arg-type]


def ask_retry(*wants: Want, tier: str = "high") -> LaneAsk:
    return ask(retry_lane(tier), *wants, kind=LaneKind.RETRY, tier=tier)


def ask_shared(*wants: Want) -> LaneAsk:
    return ask(SHARED_LANE, *wants, kind=LaneKind.SHARED)


def ask_side(*wants: Want, app: str = "shop", channel: str = "null") -> LaneAsk:
    return ask(TOPICS.side_lane(app, channel), *wants, kind=LaneKind.SIDE)


def request(number: int, *asks: LaneAsk, worker: str = "w", **fields: object) -> LeaseRequest:
    made = LeaseRequest(1, worker, number, 1_000, 3_000, 400, list(asks), [])
    return msgspec.structs.replace(made, **fields)


def run(first: int, count: int, code: int = 0, *, size: int = 1, attempt: int = 0, writer: str = "0") -> Run:
    return Run(writer, attempt, first, count, size, code)


def mixed(
    sequence: int, codes: Sequence[int], *, attempt: int = 0, size: int = 0, positions: Sequence[int] | None = None
) -> Mixed:
    places = None if positions is None else list(positions)
    return Mixed("0", attempt, sequence, size or len(codes), places, bytes(codes))


def outcomes(task: str, *parts: Run | Mixed, claim: str = "w.1") -> Outcomes:
    runs = [part for part in parts if isinstance(part, Run)]
    mixed_ones = [part for part in parts if isinstance(part, Mixed)]
    return Outcomes(RECORD_FORMAT, task, claim, 1_700_000_000_500, "null", runs, mixed_ones)


def fold(world: World, *records: OutcomeRecord, partition: int = 0) -> FoldResult:
    """Folds records at the end of a partition."""
    stands = world.fold.cursor(partition)
    cursor = f"{int((stands or '0').split(':')[0]) + 1:020d}"
    result = world.fold.apply(partition, stands, cursor, [encode_record(record) for record in records])
    assert result.applied
    return result


def statuses(answer: LeaseAnswer, lane: int = 0, wanted: int = 0) -> list[tuple[int, int]]:
    """(status, count) of the pieces of one want."""
    return [(piece.status, piece.count) for piece in answer.lanes[lane][wanted]]


def pieces(answer: LeaseAnswer) -> list[Piece]:
    return [piece for lane in answer.lanes for wanted in lane for piece in wanted]
