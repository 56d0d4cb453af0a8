"""Each incident is captured once: blocked subscriptions, lanes without progress, and the slow nodes of a guard."""

import logging
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from backends.redis.registry.registry import Registry
from backends.redis.workers import Workers
from dispatcher.model.errors import Unreachable
from estate.capture import CaptureFailed
from estate.guard import incident_watch
from estate.guard.incident_watch import OVER_S, IncidentWatch
from estate.rules.incidents import STUCK_MS, Incident
from fairlane.settings import Settings
from tests import records
from tests.actors import running
from tests.contract.registry_records import change, placed, position, ready, sealed, task_record
from tests.unit.dispatch.backends.estate_site import broker, serve_estate
from tests.unit.dispatch.consumers.fakes import eventually
from tests.unit.views import LostRedis, view_of
from tests.virtual_clock import VirtualClock

LANE = "persistent://fairlane/tasks-01/sale"


class World:
    """A Redis in memory, brokers that answer as they are told, and what is captured."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = LostRedis(self.clock.wall_ms)
        self.view = view_of(self.server)
        self.registry = Registry(self.view)
        self.statistics: dict[str, Any] = {}
        self.captured: list[Incident] = []
        self.fails: Exception | None = None
        ready(self.view)

    def take(self, incident: Incident) -> Path:
        self.captured.append(incident)
        if self.fails is not None:
            raise self.fails
        return Path("archive")

    def lane(self, **dispatch: Any) -> None:
        topic = {"subscriptions": {"dispatch": dispatch}}
        self.statistics["fairlane/tasks-01"] = {"0x0_0x8": {"persistent": {LANE: topic}}}

    def block(self) -> None:
        self.lane(msgBacklog=5, blockedSubscriptionOnUnackedMsgs=True)

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
def watch(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[IncidentWatch]:
    monkeypatch.setattr(incident_watch, "LANES_EVERY_S", 0.01)
    with ExitStack() as opened:
        runtime = {"statsUpdateFrequencyInSecs": "10"}
        answers = broker(**{"broker-stats/topics": world.statistics, "brokers/configuration/runtime": runtime})
        (address,), _ = serve_estate(opened, [answers], [])
        pulsar = {"url": "pulsar://p:1", "admin_url": f"http://{address}"}
        settings = Settings(home=tmp_path, pulsar=pulsar, redis={"url": "redis://r:1"})
        yield opened.enter_context(closing(IncidentWatch(settings, world.view, world.clock, world.take)))


def settle() -> None:
    """Wait for the captures that are being taken."""
    eventually(lambda: "capture" not in {thread.name for thread in threading.enumerate()})


# ---------------------------------------------------------------- what is seen
def test_a_blocked_subscription_is_captured(world: World, watch: IncidentWatch) -> None:
    world.lane(msgBacklog=5)
    watch.look()
    settle()
    assert not world.captured
    world.block()
    watch.look()
    settle()
    assert [incident.topics for incident in world.captured] == [(LANE,)]


def test_a_lane_with_a_backlog_of_which_no_worker_gets_anything_is_captured(world: World, watch: IncidentWatch) -> None:
    world.lane(msgBacklog=5)
    world.task_without_progress()
    watch.look()
    settle()
    (incident,) = world.captured
    assert (incident.task, incident.topics) == ("sale", (LANE,))
    assert incident.reason == "task sale has 10 targets left and makes no progress"


@pytest.mark.parametrize("why", ["its lane is empty", "it is paused", "no worker runs", "not long enough"])
def test_a_lane_that_has_a_reason_to_stay_as_it_is_is_not_captured(
    world: World, watch: IncidentWatch, why: str
) -> None:
    world.lane(msgBacklog=0 if why == "its lane is empty" else 5)
    world.task_without_progress()
    if why == "it is paused":
        world.registry.control.apply(position(9), change("sale", "paused", "1"))
    elif why == "no worker runs":
        Workers(world.view).beat(records.beat("w", "stopped"))
    elif why == "not long enough":
        world.clock.advance(-5.0)
    watch.look()
    settle()
    assert not world.captured


# ---------------------------------------------------------------- once for each incident
def captures_of(watch: IncidentWatch, world: World, *incidents: Incident) -> list[str]:
    """Report incidents at once. Return the reasons of the captures that this leads to."""
    before = len(world.captured)
    watch.report(*incidents)
    settle()
    return [incident.reason for incident in world.captured[before:]]


def test_an_incident_that_lasts_is_captured_once_however_long(world: World, watch: IncidentWatch) -> None:
    world.block()
    for _ in range(3):
        watch.look()
        world.clock.advance(OVER_S * 0.9)
    settle()
    assert len(world.captured) == 1


def test_another_incident_is_captured_at_once_and_one_that_comes_back_much_later_again(
    world: World, watch: IncidentWatch
) -> None:
    slow, other = Incident("bookie b1 is slow", "b1"), Incident("bookie b2 is slow", "b2")
    assert captures_of(watch, world, slow) == [slow.reason]
    assert captures_of(watch, world, slow) == []
    assert captures_of(watch, world, slow, other) == [other.reason]
    world.clock.advance(OVER_S)
    assert captures_of(watch, world, slow, other) == ["bookie b1 is slow (and 1 more)"]


@pytest.mark.parametrize("error", [CaptureFailed("The disk is full."), RuntimeError("a defect")])
def test_a_capture_that_fails_is_logged_and_the_next_incident_is_captured(
    world: World, watch: IncidentWatch, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    world.fails = error
    assert captures_of(watch, world, Incident("a", "a")) == ["a"]
    assert str(error) in caplog.text
    assert caplog.records[-1].levelno == logging.ERROR
    assert captures_of(watch, world, Incident("a", "a")) == [], "a full disk does not make it ask all nodes without end"
    world.fails = None
    assert captures_of(watch, world, Incident("b", "b")) == ["b"]


# ---------------------------------------------------------------- the loop
def test_the_watch_goes_on_when_redis_is_gone_and_comes_back(
    world: World, watch: IncidentWatch, caplog: pytest.LogCaptureFixture
) -> None:
    world.block()
    world.server.gone = True
    with pytest.raises(Unreachable):
        watch.look()
    with running(lambda stop: watch.run(stop, lambda: True)):
        asked = world.server.asked
        eventually(lambda: world.server.asked > asked + 20)
        assert len([one for one in caplog.records if "cannot be watched" in one.message]) == 1
        world.server.gone = False
        eventually(lambda: bool(world.captured))


def test_a_guard_that_is_not_elected_captures_nothing(world: World, watch: IncidentWatch) -> None:
    asked = threading.Semaphore(0)

    def elected() -> bool:
        asked.release()
        return False

    world.block()
    with running(lambda stop: watch.run(stop, elected)):
        assert all(asked.acquire(timeout=10.0) for _ in range(10))
    assert not world.captured
