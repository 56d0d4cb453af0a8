"""The workers page: who serves what, and the servers behind the service."""

import pytest

from dispatcher.model.errors import Unreachable
from dispatcher.model.view import WorkerBeat
from producers.desk.access_book import SILENT_S
from producers.fold_watch import PulsarState, behind
from tests.unit.dispatch.desk.desk_world import DeskWorld
from tests.unit.web.console.browser import browsing


def beat(world: DeskWorld, id_: str = "w1", **fields: object) -> None:
    now_ms = world.service.clock.wall_ms()
    made = {"host": "here", "pid": 7, "state": "serving", "version": "1", "extra": {"channels": ["log"]}} | fields
    world.connection.workers.beat(WorkerBeat(id=id_, started_ms=now_ms, seen_ms=now_ms, **made))  # type: ignore[arg-type]


async def test_workers_are_shown_with_their_channels_and_work(world: DeskWorld) -> None:
    beat(world, lanes=3, in_flight=20, rate=150.0)
    beat(world, "w2", extra={}, state="draining")
    beat(world, "gone", state="stopped")
    async with browsing(world) as browser:
        seen = await browser.get("/workers")
    assert "1 worker serves" in seen.text
    assert "w1 here, pid 7 serving log 3 20 0 150" in seen.text
    assert "w2 here, pid 7 draining any" in seen.text
    assert "gone" not in seen.text


async def test_channel_that_no_worker_has_is_named_with_its_tasks(world: DeskWorld) -> None:
    world.submit("sale")
    beat(world, extra={"channels": ["fcm"]})
    async with browsing(world) as browser:
        seen = await browser.get("/workers")
    assert "no one serves log" in seen.text
    assert "1 live task waits" in seen.text


async def test_no_worker_says_how_to_start_one(world: DeskWorld) -> None:
    async with browsing(world) as browser:
        assert "No worker runs, so nothing is sent. Start one: fairlane worker" in (await browser.get("/workers")).text


async def test_view_that_is_rebuilt_says_how_far_it_is(world: DeskWorld) -> None:
    world.service.view.command("HSET", world.service.view.keys.epoch, "ready", 0, "read:control", 1, "read:2", 1)
    async with browsing(world) as browser:
        await browser.get("/workers")
        world.service.clock.advance(SILENT_S + 1)
        seen = await browser.get("/workers")
    assert "being rebuilt 2 of 5 topics read; epoch e" in seen.text


@pytest.mark.parametrize(
    ("last", "shown"),
    [
        ({"control": (5, -1), "0": (5, 2)}, "in step outcomes 0: 3;"),
        ({"control": (5, -1), "0": (5, 1_199)}, "1,200 entries behind outcomes 0: 1,200;"),
        ({"control": (6, 0), "0": (5, -1)}, "behind control: more than a ledger;"),
        ({"control": (5, -1), "0": (5, -1)}, "in step 2 topics, all read"),
    ],
)
async def test_folds_behind_pulsar_are_shown(world: DeskWorld, last: dict[str, tuple[int, int]], shown: str) -> None:
    world.connection.pulsar = PulsarState(3, 2.5, last)
    world.service.view.command("HSET", world.service.view.keys.control, "cursor", "5:-1:000000")
    async with browsing(world) as browser:
        seen = await browser.get("/workers")
    assert shown in seen.text
    assert "2.5 ms for one request; 3 brokers" in seen.text


async def test_page_is_shown_without_pulsar(world: DeskWorld) -> None:
    world.connection.pulsar = Unreachable("Pulsar does not answer.", "Start it.")
    beat(world)
    async with browsing(world) as browser:
        seen = await browser.get("/workers")
    assert seen.status == 200
    assert "Pulsar's state is not known Pulsar does not answer. Start it." in seen.text
    assert "w1" in seen.text


async def test_last_figures_stay_while_redis_is_gone(world: DeskWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("web.console.shown.FRESH_S", 0.0)
    beat(world)
    async with browsing(world) as browser:
        await browser.get("/workers")
        world.service.redis.gone = True
        seen = await browser.get("/workers")
    assert "These figures are" in seen.text
    assert "w1" in seen.text


async def test_hostile_names_are_text(world: DeskWorld) -> None:
    beat(world, "<b>x</b>", host="<i>")
    async with browsing(world) as browser:
        seen = await browser.get("/workers")
    assert "<b>x" not in seen.html
    assert "<b>x</b> <i>, pid 7" in seen.text


@pytest.mark.parametrize(
    ("last", "cursor", "entries"),
    [
        ((5, 10), "5:10:000001", 0),
        ((5, 10), "5:7:000000", 3),
        ((5, 10), "4:99:000000", None),
        ((5, 10), "6:0:000000", 0),
        ((5, -1), "4:99:000000", None),
        ((5, 10), "", 11),
        ((5, -1), "", 0),
    ],
)
def test_fold_is_behind_by_the_entries_after_its_cursor(last: tuple[int, int], cursor: str, entries: int) -> None:
    assert behind(last, cursor) == entries
