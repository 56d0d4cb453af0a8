"""The watch of the registry while Redis comes and goes."""

import queue
from collections.abc import Sequence

import pytest

from backends.redis.task_rows import LivePage, LiveTask, RegistryState
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


class Registry:
    """A registry with its feed. breaks: this number of reads of tasks by name fail."""

    def __init__(self) -> None:
        self.tasks: dict[str, LiveTask] = {}
        self.changes: queue.SimpleQueue[list[FeedEntry]] = queue.SimpleQueue()
        self.version = 1
        self.breaks = 0
        self.error: FairlaneError = Unreachable("Redis is gone.")

    def look(self) -> RegistryState:
        return RegistryState(0, self.version, frozenset(), frozenset())

    def live_page(self, cursor: str | None, size: int) -> LivePage:
        return LivePage(0, list(self.tasks.values()), None)

    def live_by_id(self, tasks: Sequence[str]) -> list[LiveTask]:
        if self.breaks:
            self.breaks -= 1
            raise self.error
        return [self.tasks[task] for task in tasks]

    def watch(self, after: bytes | None, block_ms: int) -> tuple[bytes, list[FeedEntry]]:
        try:
            changes = self.changes.get(timeout=block_ms / 1_000)
        except queue.Empty:
            return b"", []
        self.version += len(changes)
        return b"", changes


@pytest.mark.parametrize("error", [Unreachable("Redis is gone."), FairlaneError("A key has another type.")])
def test_a_change_that_could_not_be_read_when_it_was_told_is_not_lost(error: FairlaneError) -> None:
    """All tasks are read only every 15 s; this one is looked at long before."""
    registry, reported = Registry(), list[LanesChanged]()
    settings = WatchSettings(LiveLaneSettings("me"), look_s=0.02)
    topics = Topics(tenant="t", namespaces=1)
    watcher = LaneWatcher(registry, registry, topics, reported.append, lambda: [Peer("me")], SystemClock(), settings)
    with running(watcher.run):
        eventually(lambda: bool(reported))
        registry.tasks["x"] = live_task("x")
        registry.error, registry.breaks = error, 1
        registry.changes.put([FeedEntry("task", "x")])
        eventually(lambda: "lane/x" in {lane.name for lane in reported[-1].lanes})
    assert not registry.breaks
