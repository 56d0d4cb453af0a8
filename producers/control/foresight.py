"""When tasks are expected to finish, by the model of the dry runs applied to all live tasks, and why they wait."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache

import msgspec

from backends.redis.registry.registry import Registry
from backends.redis.registry.task_rows import TASK_VIEW, TaskTimes
from backends.redis.workers import Workers
from dispatcher.analysis.served import Served
from dispatcher.analysis.situation import Outlook, Situation
from dispatcher.analysis.why import HeldUp, Why, unrecorded_by, why
from dispatcher.model.view import TaskView

_KEPT_S = 1.0
_KEPT_COSTS = 20
"""An estimate is reused for a second, or for this many times its computation time if that is longer."""


class Foresight:
    """Adds estimates to tasks. May be called from any thread. Methods raise Unreachable."""

    def __init__(self, registry: Registry, workers: Workers) -> None:
        self._registry = registry
        self._workers = workers
        self._lock = threading.Lock()
        self._etas: Mapping[str, float] = {}
        self._kept_until_s = float("-inf")

    def live(self) -> list[TaskView]:
        """Return all tasks that have not ended, newest first, with `eta_s` where an end can be estimated."""
        tasks = self._live_tasks()
        return _with(tasks, self._etas_by_task(lambda: tasks))

    def with_etas(self, tasks: Sequence[TaskView]) -> list[TaskView]:
        """Return the tasks with `eta_s` where an end can be estimated. All other live tasks are read for the
        estimate."""
        if not any(map(_may_end, tasks)):
            return list(tasks)
        return _with(tasks, self._etas_by_task(self._live_tasks))

    def _live_tasks(self) -> list[TaskView]:
        return self._registry.tasks.live(TASK_VIEW)

    def _etas_by_task(self, live: Callable[[], Iterable[TaskView]]) -> Mapping[str, float]:
        with self._lock:
            began_s = time.monotonic()
            if began_s >= self._kept_until_s:
                self._etas = self.estimate(live).etas
                now_s = time.monotonic()
                self._kept_until_s = now_s + max(_KEPT_S, _KEPT_COSTS * (now_s - began_s))
            return self._etas

    def estimate(self, live: Callable[[], Iterable[TaskView]]) -> Outlook:
        """Return what is to come; empty if no worker is serving. A task whose channel no worker has is without.
        live: returns all live tasks."""
        beats = self._workers.workers()
        if not any(beat.state == "serving" for beat in beats):
            return Outlook()
        service = self._registry.service
        return Situation.of(live(), service.globals(), beats, service.now_ms()).outlook()


def _with(tasks: Iterable[TaskView], etas: Mapping[str, float]) -> list[TaskView]:
    return [msgspec.structs.replace(task, eta_s=etas.get(task.id)) if _may_end(task) else task for task in tasks]


def _may_end(task: TaskView) -> bool:
    return task.state in ("running", "scheduled") and not task.ended


def explain(tasks: Sequence[TaskTimes], registry: Registry, workers: Workers) -> list[Why]:
    """Return where the time of each task went. What is the same for several is read once. Raises Unreachable."""
    service = registry.service
    now_ms, settings, beats, outages = service.now_ms(), service.globals(), workers.workers(), workers.outages()
    channel_pauses, flow_pauses = cache(service.channel_pauses), cache(service.flow_pauses)
    absences = cache(workers.absences)
    served, explained = Served.by(beats), list[Why]()
    for task, counted, pauses in tasks:
        of_channel, of_flow = channel_pauses(task.channel), flow_pauses(task.channel, task.app)
        held_up = HeldUp(pauses, of_channel, of_flow, outages=outages)
        if served.is_known:
            held_up = held_up._replace(no_worker_runs=absences(), no_channel=absences(task.channel))
        of_task = why(task, counted, held_up, settings, now_ms, served)
        explained.append(of_task._replace(unrecorded=unrecorded_by(task.id, beats)))
    return explained


def channel_trouble(channel: str, app: str, registry: Registry, workers: Workers) -> str:
    """Return why nothing of an app (empty: of any) is sent on a channel; empty if something may be. Raises
    Unreachable."""
    settings = registry.service.globals()
    if channel in settings.paused_channels:
        return f"channel {channel} is paused (`fairlane channel resume {channel}`)"
    if (pause := settings.flow_pause(channel, app)) is not None:
        resume = f"fairlane channel resume {channel} --app {app}"
        return f"app {app} is paused on channel {channel}: {pause} (`{resume}`)"
    return Served.by(workers.workers()).trouble(channel)
