"""The watch finds blocked subscriptions and lanes without progress, and survives its servers."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from backends.redis.registry.registry import Registry
from backends.redis.workers import Workers
from dispatcher.model.errors import Unreachable
from estate.capture.incidents import STUCK_MS, Incident
from fairlane.estate.capture import watch
from fairlane.estate.capture.watch import IncidentWatch, incidents_watched
from fairlane.settings import Settings
from tests import records
from tests.actors import running
from tests.contract.registry_records import change, placed, position, ready, sealed, task_record
from tests.unit.backends.estate_site import broker, serve_estate
from tests.unit.consumers.fakes import eventually
from tests.unit.views import LostRedis, view_of
from tests.virtual_clock import VirtualClock

LANE = "persistent://fairlane/tasks-01/sale"


class World:
    """A watch over a Redis in memory and brokers that answer as they are told."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = LostRedis(self.clock.wall_ms)
        self.view = view_of(self.server)
        self.registry = Registry(self.view)
        self.statistics: dict[str, Any] = {}
        self.reported: list[Incident] = []
        ready(self.view)

    def lane(self, **dispatch: Any) -> None:
        topic = {"subscriptions": {"dispatch": dispatch}}
        self.statistics["fairlane/tasks-01"] = {"0x0_0x8": {"persistent": {LANE: topic}}}

    def task_without_progress(self) -> None:
        """A task with a worker for it that gets nothing of it."""
        created_ms = self.clock.wall_ms()
        record = task_record("sale", created_ms=created_ms, expires_ms=created_ms + 10_000_000)
        self.registry.control.apply_all(placed(record, sealed("sale", 10)))
        self.clock.advance(STUCK_MS / 1000 + 1)
        Workers(self.view).beat(records.beat("w", extra={"channels": ["null"]}))


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def watching(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[IncidentWatch]:
    monkeypatch.setattr(watch, "open_view", lambda _: world.view)
    monkeypatch.setattr(watch, "LANES_EVERY_S", 0.01)
    with ExitStack() as opened:
        runtime = {"statsUpdateFrequencyInSecs": "10"}
        answers = broker(**{"broker-stats/topics": world.statistics, "brokers/configuration/runtime": runtime})
        (address,), _ = serve_estate(opened, [answers], [])
        pulsar = {"url": "pulsar://p:1", "admin_url": f"http://{address}"}
        settings = Settings(home=tmp_path, pulsar=pulsar, redis={"url": "redis://r:1"})
        yield opened.enter_context(closing(IncidentWatch(settings, world.reported.append)))


def test_a_blocked_subscription_is_reported(world: World, watching: IncidentWatch) -> None:
    world.lane(msgBacklog=5)
    assert not watching.look_at_lanes()
    world.lane(msgBacklog=5, blockedSubscriptionOnUnackedMsgs=True)
    (incident,) = watching.look_at_lanes()
    assert incident.topics == (LANE,)
    assert world.reported == [incident]


def test_a_lane_with_a_backlog_of_which_no_worker_gets_anything_is_reported(
    world: World, watching: IncidentWatch
) -> None:
    world.lane(msgBacklog=5)
    world.task_without_progress()
    (incident,) = watching.look_at_lanes()
    assert (incident.task, incident.topics) == ("sale", (LANE,))
    assert incident.reason == "task sale has 10 targets left and makes no progress"


@pytest.mark.parametrize("why", ["its lane is empty", "it is paused", "no worker runs", "not long enough"])
def test_a_lane_that_has_a_reason_to_stay_as_it_is_is_not_reported(
    world: World, watching: IncidentWatch, why: str
) -> None:
    world.lane(msgBacklog=0 if why == "its lane is empty" else 5)
    world.task_without_progress()
    if why == "it is paused":
        world.registry.control.apply(position(9), change("sale", "paused", "1"))
    elif why == "no worker runs":
        Workers(world.view).beat(records.beat("w", "stopped"))
    elif why == "not long enough":
        world.clock.advance(-5.0)
    assert not watching.look_at_lanes()


def test_the_watch_goes_on_when_redis_is_gone_and_comes_back(
    world: World, watching: IncidentWatch, caplog: pytest.LogCaptureFixture
) -> None:
    world.lane(msgBacklog=5, blockedSubscriptionOnUnackedMsgs=True)
    world.server.gone = True
    with pytest.raises(Unreachable):
        watching.look_at_lanes()
    with running(watching.run):
        asked = world.server.asked
        eventually(lambda: world.server.asked > asked + 20)
        lines = [one for one in caplog.records if "cannot be watched" in one.message]
        assert len(lines) == 1
        world.server.gone = False
        eventually(lambda: bool(world.reported))


def test_a_watch_begins_and_ends_with_its_block(
    world: World, watching: IncidentWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "IncidentWatch", lambda *_: watching)
    settings = Settings(redis={"url": "redis://r:1"}, pulsar={"url": "pulsar://p:1"})
    world.lane(msgBacklog=5, blockedSubscriptionOnUnackedMsgs=True)
    with incidents_watched(settings, world.reported.append):
        eventually(lambda: bool(world.reported))
    eventually(lambda: "incidents" not in {thread.name for thread in threading.enumerate()})


def test_a_process_that_is_not_elected_asks_nothing(world: World, watching: IncidentWatch) -> None:
    asked = threading.Semaphore(0)

    def held() -> bool:
        asked.release()
        return False

    world.lane(msgBacklog=5, blockedSubscriptionOnUnackedMsgs=True)
    with running(lambda stop: watching.run(stop, held)):
        assert all(asked.acquire(timeout=10.0) for _ in range(10))
    assert not world.reported
