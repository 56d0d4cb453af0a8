"""One run on servers that are up: workers, tasks, changes while they are sent, and the figures for the report."""

import math
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from rich.console import Console

from backends.system_clock import SystemClock
from dispatcher.model.view import TaskView
from fairlane.screen.sample import sample_of
from fairlane.screen.watch import Watch
from lab.demo.report import ShareMeter
from lab.worker_group import WorkerGroup
from producers.client import PushClient
from producers.files.task_file import TaskEntry
from producers.handle import TaskHandle

JOINS_S, REWEIGHTS_S, LEAVES_S, DEADLINE_S = 5.0, 9.0, 14.0, 300.0
"""When a worker joins, a weight changes and a worker leaves, and when to give up, after the first target was sent."""
REWEIGHTED, WEIGHT = "shop-flash-sale", 3.0


class DemoClient(PushClient):
    """Counts ended tasks as live, so that the screen keeps them. The demo's tenant has no tasks of others."""

    def live_tasks(self) -> list[TaskView]:
        return self.tasks()


@dataclass(kw_only=True)
class Demo:
    """One run of the demo."""

    client: DemoClient
    workers: WorkerGroup
    capacity: int
    console: Console
    meter: ShareMeter = field(default_factory=ShareMeter)
    notes: list[str] = field(default_factory=list)
    slowness: str = ""
    """The note that the machine is too slow, once made."""

    def run(self, jobs: Sequence[TaskEntry]) -> list[TaskHandle]:
        """Submit the tasks and follow them to their ends. Raise the first error of a submission."""
        self.client.set_capacity(self.capacity)
        for number in (1, 2):
            self.workers.join(f"worker-{number}")
        with ThreadPoolExecutor(3, thread_name_prefix="submit") as pool:
            submitted = [
                # Ignored: the warning that no worker has the channel, since they are starting.
                pool.submit(self.client.submit, job.task, job.targets, on_warning=lambda _: None)
                for job in jobs
            ]
            self._follow(submitted)
        return [each.result() for each in submitted]

    def _follow(self, submitted: Sequence[Future[TaskHandle]]) -> None:
        clock, script, due_s, began_s = SystemClock(), self._script(), 0.0, math.inf
        deadline_s = time.monotonic() + DEADLINE_S
        with Watch(self.console) as watch:
            while time.monotonic() < deadline_s and not any(each.done() and each.exception() for each in submitted):
                sample = sample_of(self.client, clock)
                self.meter.add(sample)
                if sample.rate > 0:
                    began_s = min(began_s, sample.at_s)
                if sample.at_s - began_s >= due_s:
                    due_s = next(script)
                self._note_troubles()
                watch.show(sample, self.notes)
                if all(each.done() for each in submitted) and all(task.ended for task in sample.tasks):
                    break
                time.sleep(0.25)

    def _script(self) -> Iterator[float]:
        """Make each change; yield when the next is due."""
        yield JOINS_S
        self.workers.join("worker-3")
        self.notes.append("worker-3 joins")
        yield REWEIGHTS_S
        for task in self.client.tasks(id_prefix=REWEIGHTED):
            if not task.ended:
                self.client.task(task.id).set_weight(WEIGHT)
                self.notes.append(f"{task.id} now has weight {WEIGHT:g} in its tier")
        yield LEAVES_S
        self.workers.leave("worker-1")
        self.notes.append("worker-1 finishes what it holds and leaves")
        yield math.inf

    def _note_troubles(self) -> None:
        notes = [f"{name} died (exit code {code}); the others go on" for name, code in self.workers.fallen().items()]
        if not self.slowness:
            self.slowness = self.meter.slowness(self.capacity)
            notes += [self.slowness] if self.slowness else []
        self.notes += [note for note in notes if note not in self.notes]
        if not self.workers.alive():
            name = f"worker-{len(self.workers.members) + 1}"
            self.workers.join(name)
            self.notes.append(f"no worker was left, {name} joins")
