"""Tasks that are steered while workers deliver them: how they are made and what is looked at."""

from contextlib import closing
from datetime import datetime, timedelta
from typing import Any

from backends.pulsar.admin import PulsarAdmin
from backends.pulsar.client import topics
from dispatcher.model.task import PushTask
from dispatcher.model.view import TaskView
from fairlane.settings import Settings
from producers.handle import TaskHandle
from tests.integration import worker_crew
from tests.integration.pulsar_helpers import task_lanes
from tests.integration.worker_crew import Crew, eventually

BEHIND = timedelta(seconds=1)
"""A worker that the machine leaves without a core may be late by this with what it was granted: as long as a lease."""


def push(**fields: Any) -> PushTask:
    return worker_crew.push(**{"app": "shop", "chunk": 1, **fields})


def begun(handle: TaskHandle) -> None:
    eventually(lambda: handle.progress().targets.sent, 20, f"{handle.id} has begun")


def counts(view: TaskView) -> tuple[int, int, int, int]:
    targets = view.targets
    assert (targets.invalid, targets.failed, targets.pending) == (0, 0, 0)
    return targets.total, targets.sent, targets.expired, targets.cancelled


def delivery_times(members: Crew, handle: TaskHandle) -> list[datetime]:
    return sorted(datetime.fromisoformat(str(line["ts"])) for line in members.lines() if line["task"] == handle.id)


def assert_lane_gone(settings: Settings, lane: str) -> None:
    with closing(PulsarAdmin(settings.pulsar)) as admin:
        eventually(lambda: lane not in task_lanes(admin, topics(settings.pulsar)), 30, f"{lane} is deleted")
