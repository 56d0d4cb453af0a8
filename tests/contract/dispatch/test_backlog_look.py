"""The state of the backlog, read in one round trip to Redis."""

from collections.abc import Sequence
from typing import Any

import pytest

from backends.redis import backlog
from backends.redis.backlog import BacklogReader
from backends.redis.workers import Workers
from dispatcher.model.errors import NotReady
from dispatcher.wire.outcome import RETRY
from tests.contract.ledger_worlds import EPOCH, LawWorld, ask_own, mixed, run
from tests.records import beat, finished


@pytest.fixture
def pages_of_three(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog, "PAGE", 3)
    monkeypatch.setattr(backlog, "PAGE_AT_MOST", 6)


@pytest.fixture
def round_trips(world: LawWorld, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many calls each round trip carried."""
    seen: list[int] = []
    scripts = world.view.scripts
    one, many = scripts.call, scripts.call_many

    def call(*args: Any) -> Any:
        seen.append(1)
        return one(*args)

    def call_many(calls: Sequence[Any]) -> Any:
        seen.append(len(calls))
        return many(calls)

    monkeypatch.setattr(scripts, "call", call)
    monkeypatch.setattr(scripts, "call_many", call_many)
    return seen


def add_tasks(world: LawWorld, first: int, count: int, apart_ms: int = 10) -> list[str]:
    names = [f"task-{number:02d}" for number in range(first, first + count)]
    for number, name in enumerate(names, start=first):
        world.add(name, created_ms=1_000 + number * apart_ms)
    return names


def names_of(look: backlog.BacklogState) -> list[str]:
    return sorted(task.view.id for task in look.tasks)


def test_it_tells_of_each_task_what_is_published_settled_claimed_and_to_be_tried_again(world: LawWorld) -> None:
    world.add("t", chunk=10, app="news")
    world.seal("t", 45)
    world.change("t", "cap", "100:20")
    world.lease(1, ask_own("t", 0, 2, size=10))
    world.record("t", run(0, 1, size=10), mixed(3, [RETRY, 0, 1]), claim="w.1")
    look = BacklogReader(world.view).read()
    (task,) = look.tasks
    view = task.view
    assert (view.id, view.app, view.tier, view.cap, view.cap_burst) == ("t", "news", "high", 100, 20)
    assert (view.targets.total, view.targets.sent, view.targets.invalid, view.targets.pending) == (45, 11, 1, 33)
    assert (task.claims, task.open) == (1, 1)
    assert look.in_flight == (True, {"t": 10})
    assert look.epoch == EPOCH


def test_it_tells_the_settings_the_pools_that_have_a_cap_and_what_was_granted(world: LawWorld) -> None:
    for field, value in {"capacity": "1000", "cap:app_channel:shop/null": "50"}.items():
        world.set_global(field, value)
    world.add("t")
    world.lease(1, ask_own("t", 0, 5))
    world.advance(1_000)
    world.lease(2, ask_own("t", 0, 5))
    look = BacklogReader(world.view).read()
    assert look.settings["capacity"] == "1000"
    assert look.pools.keys() == {"total", "app_channel/shop/null"}
    assert look.pools["total"]["busy:high"] == 1000
    assert look.counters["granted:high"] == 5


@pytest.mark.usefixtures("pages_of_three")
def test_every_task_is_told_once_in_one_round_trip_whatever_came_and_went(
    world: LawWorld, round_trips: list[int]
) -> None:
    names = add_tasks(world, 0, 10)
    reader = BacklogReader(world.view)
    assert names_of(reader.read()) == names
    names += add_tasks(world, 10, 3)
    world.apply(finished("task-02"))
    names.remove("task-02")
    round_trips.clear()
    assert names_of(reader.read()) == names
    assert len(round_trips) == 1


@pytest.mark.usefixtures("pages_of_three")
def test_tasks_of_one_moment_stay_on_one_page(world: LawWorld) -> None:
    names = add_tasks(world, 0, 5, apart_ms=0)
    reader = BacklogReader(world.view)
    assert names_of(reader.read()) == names_of(reader.read()) == names


@pytest.mark.usefixtures("pages_of_three")
def test_a_page_that_has_grown_too_long_is_cut_anew(world: LawWorld, round_trips: list[int]) -> None:
    reader = BacklogReader(world.view)
    reader.read()
    names = add_tasks(world, 0, 20)
    round_trips.clear()
    assert names_of(reader.read()) == names
    assert len(round_trips) == 3


def test_a_task_that_ended_is_told_once_more(world: LawWorld) -> None:
    add_tasks(world, 0, 2)
    reader = BacklogReader(world.view)
    at_ms = reader.read().at_ms
    world.seal("task-00", 3)
    world.record("task-00", run(0, 3))
    world.apply(finished("task-00", 3, at_ms=at_ms + 1))
    look = reader.read()
    assert names_of(look) == ["task-01"]
    assert [(task.view.id, task.view.targets.sent) for task in look.ended] == [("task-00", 3)]
    assert reader.read().ended == []


def test_with_too_many_claims_it_is_not_known_what_is_in_flight(
    world: LawWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "MAX_CLAIMS", 1)
    for name in add_tasks(world, 0, 2):
        world.lease(1, ask_own(name, 0, 1), worker=name)
    assert BacklogReader(world.view).read().in_flight == (False, {})


def test_counts_that_are_not_right_yet_are_not_told(world: LawWorld) -> None:
    world.view.client.hset(world.view.keys.epoch, "ready", "0")
    with pytest.raises(NotReady):
        BacklogReader(world.view).read()


def test_a_heartbeat_that_cannot_be_read_does_not_end_the_snapshots(world: LawWorld) -> None:
    workers = Workers(world.view)
    workers.beat(beat("w-1"))
    workers.beat(beat("w-2"))
    world.view.command("SET", world.view.keys.worker("w-2"), b"\xc1")
    assert [(beat.id, beat.state) for beat in BacklogReader(world.view).read().beats] == [
        ("unreadable", "serving"), ("w-1", "serving"),
    ]  # fmt: skip
