"""The demo, step by step: stack, provisioning, workers, nine tasks, changes while it runs, report, stop."""

import secrets
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from rich.console import Console

from backends.system_clock import SystemClock
from dispatcher.model.errors import FairlaneError
from dispatcher.model.view import Globals, TaskView, WorkerBeat
from fairlane.screen.sample import sample_of
from fairlane.screen.watch import Watch
from lab.demo.fake_fcm import FakeFcm
from lab.demo.report import DemoResult, ShareMeter, closing_report
from lab.worker_group import WorkerGroup
from producers.client import PushClient
from producers.files.task_file import TaskEntry
from producers.handle import TaskHandle


@dataclass(frozen=True, kw_only=True)
class DemoPlan:
    """Times of the demo's events, in seconds since the first target was sent."""

    capacity: int = 3_000
    joins_s: float = 5.0
    reweights_s: float = 9.0
    leaves_s: float = 14.0
    reweighted: str = "shop-flash-sale"
    weight: float = 3.0
    deadline_s: float = 300.0


@dataclass
class Audience:
    """The demo's tasks as submitted.

    It is a `Source` for the sampler, which therefore sees tasks after they have ended, too.
    """

    client: PushClient
    handles: dict[str, TaskHandle] = field(default_factory=dict)
    errors: list[FairlaneError] = field(default_factory=list)

    def globals(self) -> Globals:
        return self.client.globals()

    def workers(self) -> list[WorkerBeat]:
        return self.client.workers()

    def live_tasks(self) -> list[TaskView]:
        return [handle.progress() for handle in list(self.handles.values())]

    def submit(self, name: str, job: TaskEntry) -> None:
        """Submit one task under an id of this run."""
        task = job.task.model_copy(update={"id": name})
        try:
            self.handles[name] = self.client.submit(task, targets=job.targets, on_warning=self._ignore)
        except FairlaneError as error:
            self.errors.append(error)

    def _ignore(self, warning: str) -> None:
        """Ignore the warning that no worker has the channel yet: the workers start while tasks are submitted."""

    def accepted(self) -> dict[str, int]:
        return {name: handle.result.accepted for name, handle in self.handles.items() if handle.result}


@dataclass(kw_only=True)
class Demo:
    """One run of the demo on servers that are already up."""

    client: PushClient
    workers: WorkerGroup
    jobs: list[TaskEntry]
    console: Console
    plan: DemoPlan = DemoPlan()
    fcm: FakeFcm | None = None
    """Where the tasks of the channel `fcm` go."""
    started_s: float = field(default_factory=time.monotonic)
    run_id: str = field(default_factory=lambda: secrets.token_hex(2))
    """Distinguishes the task ids of this run from those of other runs."""

    def name(self, task: str) -> str:
        return f"{task}-{self.run_id}"

    def run(self) -> int:
        """Run the demo; return the exit code, which is 0 only if every target ended in an outcome."""
        audience = Audience(self.client)
        self.client.set_capacity(self.plan.capacity)
        for number in (1, 2):
            self.workers.join(f"worker-{number}")
        with ThreadPoolExecutor(3, thread_name_prefix="submit") as pool:
            submitted = [pool.submit(audience.submit, self.name(j.task.id or ""), j) for j in self.jobs]
            meter = self._watch(audience, lambda: all(f.done() for f in submitted))
        if audience.errors:
            raise audience.errors[0]
        closing = DemoResult(
            tasks=audience.live_tasks(),
            accepted=audience.accepted(),
            workers=self.client.workers(),
            meter=meter,
            seconds=time.monotonic() - self.started_s,
            fcm=None if self.fcm is None else self.fcm.counts(),
        )
        self.console.print(closing_report(closing))
        return 1 if closing.failures() or len(audience.handles) < len(self.jobs) else 0

    def _watch(self, audience: Audience, all_submitted: Callable[[], bool]) -> ShareMeter:
        clock, meter = SystemClock(), ShareMeter()
        script, slow = Script(self, audience), ""
        deadline = time.monotonic() + self.plan.deadline_s
        with Watch(self.console) as watch:
            while time.monotonic() < deadline and not audience.errors:
                sample = sample_of(audience, clock)
                meter.add(sample)
                script.follow(sending=sample.rate > 0)
                if not slow and (slow := meter.slowness(self.plan.capacity)):
                    script.notes.append(slow)
                watch.show(sample, script.notes)
                if all_submitted() and all(task.ended for task in sample.tasks):
                    break
                time.sleep(0.25)
        return meter


@dataclass
class Script:
    """Changes made while the demo runs, each once and at its time."""

    demo: Demo
    audience: Audience
    notes: list[str] = field(default_factory=list)
    _began: float | None = None
    _made: int = 0

    def follow(self, *, sending: bool) -> None:
        """Make the changes that are due."""
        if self._began is None:
            self._began = time.monotonic() if sending else None
            return
        plan, elapsed = self.demo.plan, time.monotonic() - self._began
        changes = ((plan.joins_s, self._join), (plan.reweights_s, self._reweight), (plan.leaves_s, self._leave))
        for at_s, change in changes[self._made :]:
            if elapsed >= at_s:
                self._made += 1
                change()
        self._replace_fallen()

    def _join(self) -> None:
        self.demo.workers.join("worker-3")
        self.notes.append("worker-3 joins")

    def _reweight(self) -> None:
        handle = self.audience.handles.get(self.demo.name(self.demo.plan.reweighted))
        if handle and not handle.progress().ended:
            handle.set_weight(self.demo.plan.weight)
            self.notes.append(f"{handle.id} now has weight {self.demo.plan.weight:g} in its tier")

    def _leave(self) -> None:
        self.demo.workers.leave("worker-1")
        self.notes.append("worker-1 finishes what it holds and leaves")

    def _replace_fallen(self) -> None:
        for name, code in self.demo.workers.fallen().items():
            note = f"{name} died (exit code {code}); the others go on"
            if note not in self.notes:
                self.notes.append(note)
        if not self.demo.workers.alive():
            name = f"worker-{len(self.demo.workers.members) + 1}"
            self.demo.workers.join(name)
            self.notes.append(f"no worker was left, {name} joins")
