"""Worlds in this process and in real servers, under a clock that tests move; records and requests for them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from backends.redis.keys import COUNT_FIELDS
from backends.redis.registry.task_rows import TASK_TIMES
from backends.redis.view import RedisView, open_view
from backends.settings import RedisSettings
from dispatcher.analysis.task_times import counted_of
from dispatcher.model.tier import Tier
from dispatcher.ports import FoldResult
from dispatcher.wire.control import ControlRecord, TaskRecord
from dispatcher.wire.lease import GivenBack, LaneAsk, LaneKind, LeaseAnswer, LeaseRequest, Status, StatusRun, Want
from dispatcher.wire.outcome import FORMAT as RECORD_FORMAT
from dispatcher.wire.outcome import ClaimsEnded, EpochMark, Mixed, OutcomeRecord, Outcomes, Run, encode_record
from dispatcher.wire.topics import Topics, side_of_lane, task_of_lane
from lab.simulator.redis.server import MemoryRedis
from lab.simulator.world import FIRST_VIEW, World, counts_in, view_in
from tests import records
from tests.contract import registry_records
from tests.contract.moved_clock import ClockKey
from tests.records import finished
from tests.unit.engine_world import EngineWorld
from tests.virtual_clock import VirtualClock

TOPICS = Topics(outcome_partitions=2)
EPOCH = FIRST_VIEW
PREFIX = "law"


class Look(NamedTuple):
    """A view's state of a task: results of `LawWorld.counts`, `claims` and `why`."""

    counts: dict[str, int]
    claims: int
    why: dict[str, int]


class Place(NamedTuple):
    """Parts that all worlds of one server share. lua: the scripts, if their clock is a key. clock: of the server."""

    view: RedisView
    lua: Path | None
    clock: "ClockKey | ServerClock"


class LawWorld(EngineWorld):
    """One prefix of a Redis, under a clock that tests move."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._others = count(1)
        super().__init__(topics=TOPICS, view=place.view, lua=place.lua)
        self._grant_after(0)
        self.advance(0)

    def _grant_after(self, wall_ms: int) -> None:
        """By the clock of the tests; a real server began the view by its own."""
        self.view.client.hset(self.view.keys.epoch, "grants_after_ms", wall_ms)

    def advance(self, ms: int) -> None:
        self.clock.advance(ms / 1000)
        self.place.clock.set(self.clock.wall_ms())

    def beat(self, worker: str, extra: object = None) -> None:
        """Store a heartbeat at the time of the tests; a real server has its own. extra: more fields of it, by name."""
        beat = {"id": worker, "state": "serving"} | ({} if extra is None else {"extra": extra})
        self.view.client.set(self.view.keys.worker(worker), msgspec.msgpack.encode(beat))
        self.view.client.zadd(self.view.keys.workers, {worker: self.clock.wall_ms()})

    def apply(self, record: ControlRecord) -> None:
        if isinstance(record, EpochMark):
            position, cursor = self.control.append(record), self.registry.control.cursor()
            self.registry.control.move_cursor(cursor, position, record.epoch, marked=True)
        else:
            self.write(record)

    def add(self, task: str, tier: str = "high", **fields: Any) -> None:
        """A task is accepted: see `task_record`."""
        self.apply(task_record(task, tier, **fields))

    def seal(self, task: str, targets: int, writers: Sequence[str] = ("0",)) -> None:
        self.apply(registry_records.sealed(task, targets, writers))

    def end(self, task: str) -> None:
        self.apply(finished(task))

    def set_capacity(self, targets_s: int) -> None:
        self.set_global("capacity", str(targets_s))

    def lease(self, number: int, *asks: LaneAsk, **fields: Any) -> LeaseAnswer:
        """The answer to a worker's call: see `request`."""
        return self.ledger.lease(request(number, *asks, **fields))

    def statuses(self, number: int, *asks: LaneAsk, **fields: Any) -> list[tuple[int, int]]:
        """(status, count) of the pieces of the first want that a worker asks for."""
        return statuses(self.lease(number, *asks, **fields))

    def granted(self, number: int, *asks: LaneAsk, **fields: Any) -> int:
        """How many envelopes of the first want are granted."""
        return sum(count for status, count in self.statuses(number, *asks, **fields) if status == Status.GRANTED)

    def by_another(self, asked: LaneAsk) -> list[list[StatusRun]]:
        """The pieces of each want, asked for by a worker that has asked for nothing yet."""
        return self.lease(1, asked, worker=f"another-{next(self._others)}").lanes[0]

    def word(self, asked: LaneAsk) -> list[tuple[int, int, str]]:
        """(status, count, lane) of the pieces of the first of these wants."""
        return [(piece.status, piece.count, piece.lane) for piece in self.by_another(asked)[0]]

    def end_claims(self) -> list[str]:
        """End the claims that are due, as the housekeeper does; their names."""
        due = self.ledger.due_claims()
        for partition, claims in due.items():
            fold(self, ClaimsEnded(RECORD_FORMAT, claims), partition=partition)
        return [name for claims in due.values() for name in claims]

    def store(self, *records: OutcomeRecord) -> None:
        """Append records to the outcome topic of task t, which `fold_outcomes` reads."""
        for record in records:
            self.outcomes.append(self.topics.partition_of("t"), record)

    def record(self, task: str, *parts: Run | Mixed, claim: str = "w.1") -> FoldResult:
        """Fold an outcome record of these parts."""
        return fold(self, outcomes(task, *parts, claim=claim))

    def counts(self, task: str) -> dict[str, int]:
        """Those that are 0 included."""
        return World.counts(self, task)

    def claims(self, task: str) -> int:
        return int(self.view.client.hget(self.view.keys.task(task), "claims") or 0)

    def sides(self) -> frozenset[str]:
        return self.registry.sides.topics()

    def why(self, task: str) -> dict[str, int]:
        [times] = self.registry.tasks.named([task], TASK_TIMES)
        return dict(times.counted.causes)

    def look(self, tasks: Sequence[str]) -> dict[str, Look]:
        """In one round trip."""
        pipeline = self.view.client.pipeline(transaction=False)
        for task in tasks:
            pipeline.hmget(self.view.keys.task(task), [*COUNT_FIELDS, "claims", "why"])
        return {
            task: Look(counts_in(values), int(claims or 0), counted_of((why or b"").decode()))
            for task, (*values, claims, why) in zip(tasks, pipeline.execute(), strict=True)
        }

    def restart_epoch(self, grants_after_ms: int) -> None:
        self.begin_view("again")
        self._grant_after(grants_after_ms)


@contextmanager
def redis_worlds(url: str, lua: Path) -> Iterator[Callable[[], LawWorld]]:
    """Makes fresh worlds, one after the other, under one prefix."""
    view = open_view(RedisSettings(url=url, prefix=PREFIX))
    server = urlsplit(url)
    clock_key = ClockKey((server.hostname or "127.0.0.1", server.port or 6379), f"{view.keys.prefix}:test-clock")

    def fresh() -> LawWorld:
        view.wipe()
        clock_key.set(0)
        return LawWorld(Place(view, lua, clock_key))

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


def in_process_worlds(lua: Path | None = None) -> Callable[[], LawWorld]:
    """Make worlds over a Redis in this process, which runs the scripts that ship. lua: others instead, with a clock
    that is a key."""
    clock = ServerClock()
    server = MemoryRedis(clock.now_ms)
    view = view_in(server, PREFIX)
    if lua is not None:
        clock.on_set = lambda wall_ms: view.client.set(f"{PREFIX}:test-clock", wall_ms)

    def fresh() -> LawWorld:
        server.store.clear()
        clock.set(VirtualClock().wall_ms())
        return LawWorld(Place(view, lua, clock))

    return fresh


# ---------------------------------------------------------------- records and requests


Worlds = Callable[[], LawWorld]


@cache
def own_lane(task: str) -> str:
    return TOPICS.own_lane(task)


SHARED_LANE = TOPICS.shared_lane(0)


def retry_lane(tier: str) -> str:
    return TOPICS.retry_lane(Tier(tier), 1)


def task_record(task: str, tier: str = "high", *, shared: bool = False, **fields: object) -> TaskRecord:
    plain = {"lane": SHARED_LANE if shared else own_lane(task), "chunk": 1, "expected_targets": -1}
    return registry_records.task_record(task, shared=shared, tier=Tier(tier), **plain | fields)


def set_cap(world: LawWorld, field: str, cap: str) -> None:
    """field: a setting, or `task` for the cap of task t."""
    world.apply(registry_records.change("t", "cap", cap) if field == "task" else registry_records.setting(field, cap))


def want(task: str, first: int, count: int, *, size: int = 1, attempt: int = 0, **fields: Any) -> Want:
    values: dict[str, Any] = {"writer": "0", "total": size, "tries": attempt * size} | fields
    return Want(task=task, attempt=attempt, first=first, count=count, size=size, **values)


def ask(
    lane: str,
    *wants: Want,
    kind: LaneKind = LaneKind.OWN,
    tier: str = "",
    demand: int = 0,
    waiting: bool = False,
) -> LaneAsk:
    task = task_of_lane(lane) or ""
    app, channel = side_of_lane(lane) or ("", "")
    delay_s = next((retry.delay_s for retry in TOPICS.retry_lanes() if retry.topic == lane), 0)
    return LaneAsk(
        lane=lane,
        kind=kind,
        tier=tier,
        demand=demand,
        wants=list(wants),
        waiting=waiting,
        task=task,
        app=app,
        channel=channel,
        delay_s=delay_s,
    )


def ask_own(task: str, first: int, count: int, **more: Any) -> LaneAsk:
    return ask(own_lane(task), want(task, first, count, **more))


def ask_retry(*wants: Want, tier: str = "high") -> LaneAsk:
    return ask(retry_lane(tier), *wants, kind=LaneKind.RETRY, tier=tier)


def ask_shared(*wants: Want) -> LaneAsk:
    return ask(SHARED_LANE, *wants, kind=LaneKind.SHARED)


def ask_side(*wants: Want, app: str = "shop") -> LaneAsk:
    return ask(TOPICS.side_lane(app, "null"), *wants, kind=LaneKind.SIDE)


def request(number: int, *asks: LaneAsk, worker: str = "w", **fields: object) -> LeaseRequest:
    made = LeaseRequest(
        format=1,
        worker=worker,
        number=number,
        lease_ms=1_000,
        claim_ms=3_000,
        demand_ms=400,
        lanes=list(asks),
        given_back=[],
        waiting_ms=3_000,
        shared_namespace=TOPICS.shared_namespace,
    )
    return msgspec.structs.replace(made, **fields)


def given_back(task: str, first: int, count: int, claim: str = "w.1", **fields: Any) -> GivenBack:
    """Credit of first attempts in the task's own lane."""
    plain = GivenBack(
        claim=claim, lane=own_lane(task), task=task, writer="0", attempt=0, first=first, count=count, size=1
    )
    return msgspec.structs.replace(plain, **fields)


def back_of(wanted: Want, claim: str, lane: str, first: int, count: int) -> GivenBack:
    """Credit of some envelopes of a want."""
    fields = {"lane": lane, "writer": wanted.writer, "attempt": wanted.attempt, "size": wanted.size}
    return given_back(wanted.task, first, count, claim, **fields)


def run(first: int, count: int, code: int = 0, *, size: int = 1, attempt: int = 0, writer: str = "0") -> Run:
    return Run(writer=writer, attempt=attempt, first=first, count=count, size=size, code=code)


def mixed(
    sequence: int, codes: Sequence[int], *, size: int = 0, positions: Sequence[int] | None = None, **fields: Any
) -> Mixed:
    places = None if positions is None else list(positions)
    values: dict[str, Any] = {"writer": "0", "attempt": 0, "sequence": sequence, "size": size or len(codes), **fields}
    return Mixed(positions=places, codes=bytes(codes), **values)


def outcomes(task: str, *parts: Run | Mixed, **fields: Any) -> Outcomes:
    return records.outcomes(*parts, **{"task": task, "at_ms": 1_700_000_000_500, **fields})


def fold(world: LawWorld, *records: OutcomeRecord, partition: int = 0) -> FoldResult:
    """Folds records at the end of a partition."""
    stored = world.fold.cursor(partition)
    cursor = f"{int((stored or '0').split(':')[0]) + 1:020d}"
    result = world.fold.apply(partition, stored, cursor, [encode_record(record) for record in records])
    assert result.applied
    return result


def statuses(answer: LeaseAnswer, lane: int = 0, wanted: int = 0) -> list[tuple[int, int]]:
    """(status, count) of the pieces of one want."""
    return [(piece.status, piece.count) for piece in answer.lanes[lane][wanted]]


def each_piece(asks: Sequence[LaneAsk], answer: LeaseAnswer) -> Iterator[tuple[LaneAsk, Want, int, StatusRun]]:
    """The pieces of an answer, each with its lane, its want and the first of its envelopes."""
    for lane, wants in zip(asks, answer.lanes, strict=True):
        for wanted, found in zip(lane.wants, wants, strict=True):
            first = wanted.first
            for piece in found:
                yield lane, wanted, first, piece
                first += piece.count
            assert first == wanted.first + wanted.count


def pieces(answer: LeaseAnswer) -> list[StatusRun]:
    return [piece for lane in answer.lanes for wanted in lane for piece in wanted]
