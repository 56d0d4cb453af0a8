"""The state of the service, read through a client, for commands that show it."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from backends.system_clock import SystemClock
from fairlane.screen.sample import Sample, Sampler

if TYPE_CHECKING:
    from dispatcher.model.view import Globals, TaskView, WorkerBeat
    from producers.client import PushClient

MEASURE_S = 2.2
"""How long to measure. Heartbeats come once a second: long enough to see two."""


@dataclass(frozen=True)
class ClientSource:
    """A `Source` for the sampler: the live tasks of a client."""

    client: "PushClient"

    def globals(self) -> "Globals":
        return self.client.globals()

    def workers(self) -> "list[WorkerBeat]":
        return self.client.workers()

    def live_tasks(self) -> "list[TaskView]":
        return self.client.live_tasks()


def settled_sample(client: "PushClient") -> Sample:
    """Return a sample whose rates are those of the last two seconds."""
    from fairlane.cli.base.progress import measuring

    sampler = Sampler(ClientSource(client), SystemClock())
    with measuring(MEASURE_S):
        sampler.take()
        time.sleep(MEASURE_S)
        return sampler.take()
