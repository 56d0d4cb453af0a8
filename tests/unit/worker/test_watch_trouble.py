"""The watch of the registry while Redis comes and goes."""

import queue
from collections.abc import Sequence
from typing import Any

import pytest

from backends.redis.feed import Feed
from backends.redis.registry.task_rows import RowShape
from backends.system_clock import SystemClock
from dispatcher.engine.events import LanesChanged
from dispatcher.model.errors import FairlaneError, Unreachable
from dispatcher.model.view import FeedEntry
from dispatcher.wire.topics import Topics
from fairlane.worker.live_lanes import LiveLaneSettings, Peer
from fairlane.worker.watcher import LaneWatcher, WatchSettings
from tests.actors import running
from tests.unit.consumers.fakes import eventually
from tests.unit.tasks import live_task
from tests.unit.views import FixedRegistry, FixedService, FixedTasks


class Tasks(FixedTasks):
    """breaks: how often tasks cannot be read by id, for `error`."""

    breaks = 0
    error: FairlaneError = Unreachable("Redis is gone.")

    def named(self, tasks: Sequence[str], shape: RowShape[Any], *, ended: bool | None = None) -> list[Any]:
        if self.breaks:
            self.breaks -= 1
            raise self.error
        return super().named(tasks, shape, ended=ended)


class ToldFeed(Feed):
    """Says what a test puts into it."""

    def __init__(self, service: FixedService) -> None:
        self.changes: queue.Queue[list[FeedEntry]] = queue.Queue()
        self._service = service

    def watch(self, after: bytes | None, block_ms: int) -> tuple[bytes, list[FeedEntry]]:
        try:
            changes = self.changes.get(timeout=block_ms / 1_000)
        except queue.Empty:
            return b"", []
        self._service.number += len(changes)
        return b"", changes


@pytest.mark.parametrize("error", [Unreachable("Redis is gone."), FairlaneError("A key has another type.")])
def test_a_change_that_could_not_be_read_when_it_was_told_is_not_lost(error: FairlaneError) -> None:
    """All tasks are read only every 15 s; this one is looked at long before."""
    tasks, service, reported = Tasks(), FixedService(), list[LanesChanged]()
    registry, feed = FixedRegistry(tasks, service), ToldFeed(service)
    settings = WatchSettings(lanes=LiveLaneSettings(me="me"), look_s=0.02)
    topics = Topics(tenant="t", namespaces=1)
    watcher = LaneWatcher(registry, feed, topics, reported.append, lambda: [Peer("me")], SystemClock(), settings)
    with running(watcher.run):
        eventually(lambda: bool(reported))
        tasks.known["x"] = live_task("x")
        tasks.error, tasks.breaks = error, 1
        feed.changes.put([FeedEntry("task", "x")])
        eventually(lambda: "lane/x" in {lane.name for lane in reported[-1].lanes})
    assert not tasks.breaks
