"""A script that fails at any of its commands has changed nothing, or the view says that it is broken."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import pytest
from redis.exceptions import ResponseError

from dispatcher.model.errors import FairlaneError
from dispatcher.wire.control import ControlRecord
from dispatcher.wire.lease import LaneAsk, Status
from dispatcher.wire.outcome import RETRY, ClaimsEnded, CloseTask, Outcome, OutcomeRecord, encode_record
from lab.simulator.redis.commands import Answer, Commands
from lab.simulator.redis.keyspace import KEYSPACE
from lab.simulator.redis.server import MemoryRedis
from lab.simulator.redis.store import Store
from lab.simulator.world import view_in
from tests.contract.ledger_crowd import assert_tallied
from tests.contract.ledger_worlds import (
    TOPICS,
    LawWorld,
    Place,
    ServerClock,
    ask,
    ask_own,
    ask_retry,
    ask_shared,
    fold,
    given_back,
    mixed,
    outcomes,
    own_lane,
    run,
    statuses,
    task_record,
    want,
)
from tests.contract.registry_records import change, epoch_of, sealed, setting
from tests.records import checkpoint, finished
from tests.virtual_clock import VirtualClock

PARTITION = TOPICS.partition_of("a")
Act = Callable[[LawWorld], object]


class Failing(Commands):
    """The commands of a Redis in memory, one of which fails: the `at`-th that scripts call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.at = 0

    def call(self, store: Store, words: Sequence[bytes]) -> Answer:
        self.calls += 1
        if self.calls == self.at:
            raise ResponseError("ERR made to fail")
        return KEYSPACE.call(store, words)


class Bench:
    """A service under way, to which an act is done again and again from the same state."""

    def __init__(self) -> None:
        clock = ServerClock()
        clock.set(VirtualClock().wall_ms())
        self.commands = Failing()
        self.server = MemoryRedis(clock.now_ms, self.commands)
        self.world = LawWorld(Place(view_in(self.server, "law"), None, clock))
        _get_under_way(self.world)
        self._start = self.server.store.snapshot()
        self.before = self.truth()

    def do(self, act: Act, fails_at: int = 0) -> int:
        """From the start. Return the number of commands that scripts called."""
        self.server.store.restore(self._start)
        self.commands.calls, self.commands.at = 0, fails_at
        try:
            act(self.world)
        finally:
            self.commands.at = 0
        return self.commands.calls

    def truth(self) -> dict[bytes, Any]:
        """All but what is counted for shares and figures; bits that are not set are as none."""
        found = {}
        for key, (value, _) in self.server.store.contents().items():
            plain = value.rstrip(b"\0") if isinstance(value, bytes) else value
            if plain and not key.startswith(SHARES):
                found[key] = {k: v for k, v in plain.items() if k not in FIGURES} if isinstance(plain, dict) else plain
        return found

    @property
    def broken(self) -> bool:
        epoch = epoch_of(self.world.epochs)
        assert not (epoch.broken and epoch.ready)
        return bool(epoch.broken)


SHARES = tuple(f"law:{name}".encode() for name in ("demand", "parts", "pool:", "vt:", "stats"))
FIGURES = {b"why", b"why_ms", b"why_from", b"cap_bucket", b"cap_us", b"cap_rate", b"claims"}


def _get_under_way(world: LawWorld) -> None:
    for task in ("a", "b"):
        world.add(task, cap=300)
        world.seal(task, 40)
    for task in ("s1", "s2"):
        world.add(task, "low", shared=True)
    world.set_capacity(1_000)
    world.set_global("cap:channel:null", "500")
    world.advance(300)
    shared = ask_shared(want("s1", 0, 3), want("s2", 0, 2))
    world.lease(1, ask_own("a", 0, 10), ask_own("b", 0, 5), shared)
    fold(world, outcomes("a", run(0, 4), mixed(4, [0, 9])), partition=PARTITION)
    world.advance(300)


def _lease(world: LawWorld) -> None:
    back = given_back("a", 6, 4)
    shared, retry = ask_shared(want("s1", 3, 3)), ask_retry(want("a", 4, 1, attempt=1))
    world.lease(2, ask_own("a", 10, 10), ask_own("b", 5, 5), shared, retry, given_back=[back])


def _sweep(world: LawWorld) -> None:
    world.view.client.delete(world.view.keys.claim("w.1", "a"), world.view.keys.claims)
    world.view.client.hset(world.view.keys.task("a"), "claims", 0)
    world.ledger.claim_lost()


def _folds(*records: OutcomeRecord) -> Act:
    def act(world: LawWorld) -> None:
        cursor = world.fold.cursor(PARTITION)
        assert world.fold.apply(PARTITION, cursor, "9", [encode_record(record) for record in records]).applied

    return act


def _applies(record: ControlRecord) -> Act:
    return lambda world: world.registry.control.apply("99", record)


ACTS: dict[str, Act] = {
    "lease": _lease,
    "lease of copies": lambda world: world.lease(2, ask(own_lane("a"), want("a", 10, 5), want("a", 10, 5))),
    "fold of outcomes": _folds(outcomes("a", run(5, 3), mixed(8, [0, 9]))),
    "fold of a close": _folds(CloseTask(1, "a", Outcome.CANCELLED, 5)),
    "fold of ended claims": _folds(ClaimsEnded(1, ["w.1|a"])),
    "task": _applies(task_record("z")),
    "seal": _applies(sealed("s1", 3)),
    "cancel": _applies(change("a", "cancelled", "1")),
    "move": _applies(change("s1", "lane", own_lane("s1"))),
    "setting": _applies(setting("cap:app:shop", "3")),
    "end": _applies(finished("a")),
    "checkpoint": _applies(checkpoint("a", 5, targets=5)),
    "heartbeat": lambda world: world.ledger.due_claims(),
    "sweep": _sweep,
}


@pytest.mark.parametrize("name", ACTS)
def test_a_script_that_fails_changes_nothing_or_the_view_says_that_it_is_broken(name: str) -> None:
    bench = Bench()
    count = bench.do(ACTS[name])
    for failing in range(1, count + 1):
        with pytest.raises(FairlaneError, match="made to fail"):
            bench.do(ACTS[name], failing)
        assert bench.broken or bench.truth() == bench.before, f"command {failing} of {count}"


def test_a_call_that_failed_leaves_the_shares_as_they_are_counted() -> None:
    """Whatever it had counted, the next calls are granted what they would have been."""
    bench = Bench()
    count = bench.do(_lease)
    for failing in range(1, count + 1):
        with pytest.raises(FairlaneError, match="made to fail"):
            bench.do(_lease, failing)
        if not bench.broken:
            assert_tallied(bench.world)
            _assert_counted(bench.world, failing)


def _assert_counted(world: LawWorld, failing: int) -> None:
    """The pools' sums of demand are those of the lanes that have it."""
    keys, client = world.view.keys, world.view.client
    demand = cast("dict[bytes, bytes]", client.hgetall(f"{keys.prefix}:demand_of")).values()
    wanted = sum(int(text.split()[3]) for text in demand if not text.startswith(b"debt"))
    sums = client.hmget(keys.pool("total"), [f"wanted:{tier}" for tier in ("high", "medium", "low")])
    assert sum(int(one or 0) for one in sums) == wanted, failing


def test_a_broken_view_grants_nothing_and_is_replaced(live: LawWorld) -> None:
    """A key of another type makes a fold fail after its first write."""
    client, prefix = live.view.client, live.view.keys.prefix
    client.sadd(f"{prefix}:touched:t:0", "foreign")
    with pytest.raises(FairlaneError, match="WRONGTYPE"):
        live.fold.apply(0, None, "1", [encode_record(outcomes("t", run(0, 3)))])
    epoch = epoch_of(live.epochs)
    assert epoch.broken.startswith("WRONGTYPE")
    assert not epoch.ready
    assert not live.lease(1, ask_own("t", 0, 3)).ready
    assert not live.epochs.begin_epoch("other", 0, 2)
    assert live.epochs.begin_epoch("sound", 0, 2, replaces=epoch.id)
    sound = epoch_of(live.epochs)
    assert (sound.id, sound.broken) == ("sound", "")
    assert client.exists(f"{prefix}:touched:t:0") == 0


def test_a_failure_before_the_first_write_breaks_nothing(live: LawWorld) -> None:
    client, prefix = live.view.client, live.view.keys.prefix
    client.sadd(f"{prefix}:final:t:0", "foreign")
    with pytest.raises(FairlaneError, match="WRONGTYPE"):
        live.fold.apply(0, None, "1", [encode_record(outcomes("t", run(0, 3)))])
    client.delete(f"{prefix}:final:t:0")
    assert live.epochs.ready()
    assert live.statuses(1, ask_own("t", 0, 3)) == [(Status.GRANTED, 3)]


# ---------------------- a lease script that fails half-way takes back what it has done: a script is not rolled back
GRANTED = Status.GRANTED


@contextmanager
def foreign(world: LawWorld, key: str) -> Iterator[None]:
    """A key of another type makes a command fail, early or late in the script."""
    client, name, kept = world.view.client, f"{world.view.keys.prefix}:{key}", "law-kept"
    was_there = bool(client.exists(name)) and bool(client.rename(name, kept))
    client.set(name, "foreign")
    yield
    client.delete(name)
    if was_there:
        client.rename(kept, name)


@pytest.fixture
def opened(world: LawWorld) -> LawWorld:
    """Its pool has some credit: the first call opens it."""
    world.set_capacity(1_000)
    for task in ("t", "other"):
        world.add(task)
    world.lease(1, ask_own("t", 100, 3))
    world.advance(1_000)
    return world


@pytest.mark.parametrize("key", ["open:t", "demand", "demand_of", "pool:total", "vt:total", "claims"])
def test_nothing_of_a_call_that_failed_is_claimed_or_counted(opened: LawWorld, key: str) -> None:
    assert opened.statuses(2, ask_own("t", 100, 3)) == [(GRANTED, 3)]
    opened.record("t", mixed(50, [0, RETRY], size=2))
    lanes = [
        ask_own("other", 0, 4),
        ask(own_lane("t"), want("t", 0, 5), want("t", 3, 4)),
        ask_retry(want("t", 50, 1, attempt=1)),
        ask(own_lane("t"), want("t", 100, 1)),
    ]
    with foreign(opened, key), pytest.raises(FairlaneError, match="WRONGTYPE"):
        opened.lease(3, *lanes)
    assert opened.claims("other") == 0
    assert opened.claims("t") == 1
    assert_tallied(opened)
    assert granted_to_another(opened, *lanes[:3]) == [4, 7, 1]
    assert_tallied(opened)


@pytest.mark.parametrize("key", ["open:t", "demand", "pool:total", "vt:total"])
def test_credit_returned_in_a_call_that_failed_is_free_or_still_claimed(opened: LawWorld, key: str) -> None:
    assert opened.statuses(2, ask_own("t", 0, 5)) == [(GRANTED, 5)]
    back = given_back("t", 0, 5, "w.2")
    with foreign(opened, key), pytest.raises(FairlaneError, match="WRONGTYPE"):
        opened.lease(3, ask_own("t", 5, 1), given_back=[back])
    assert_tallied(opened)
    opened.lease(4, given_back=[back])
    assert_tallied(opened)
    assert granted_to_another(opened, ask_own("t", 0, 6)) == [6]
    assert opened.claims("t") == 1


def granted_to_another(world: LawWorld, *lanes: LaneAsk) -> list[int]:
    """Envelopes of each lane granted to another worker within a second."""
    granted = [0] * len(lanes)
    for number in range(1, 5):
        answer = world.lease(number, *lanes, worker="other")
        for place, lane in enumerate(lanes):
            pieces = [piece for wanted in range(len(lane.wants)) for piece in statuses(answer, place, wanted)]
            granted[place] += sum(count for status, count in pieces if status == GRANTED)
        world.advance(250)
    return granted
