"""The service at one moment: its live tasks, settings and workers. Predicts when each task is done."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dispatcher.analysis.failing import fails_by
from dispatcher.analysis.forecast import MAX_STEPS, Forecast, Steps, forecast
from dispatcher.analysis.rates import ForecastTask, binding_caps, shares_of, targets_per_request
from dispatcher.model.view import Globals, TaskView

RATES_KNOWN_MS = 5_000
"""Heartbeats carry rates over the last 3 s, so once a task has been sent for this long, they show the workers' rate."""
_WORKERS_LIMIT = 0.9
"""Below this part of the rate that capacity and caps allow, the workers are the limit."""
_ETA_WORK = 40_000
"""Maximum steps times tasks of one estimate, about 0.2 s. With many tasks, ends close together count as one moment."""


class Outlook(NamedTuple):
    """The forecast of all live tasks."""

    etas: Mapping[str, float] = {}
    """Seconds until done by task, if that can be predicted."""
    steps: Steps = ()
    """Targets/s by tier, as in Forecast."""


class Situation(NamedTuple):
    """The service at one moment: the input of a forecast. Call `done_s` or `etas` for the result."""

    tasks: Sequence[TaskView]
    """The live tasks."""
    settings: Globals
    measured_rate: float
    """Targets/s being sent; used as the capacity if none is set."""
    now_ms: int
    """Wall time."""

    def done_s(self) -> dict[str, float | None]:
        """Return the seconds until each task is done. With neither a capacity nor a rate, only caps limit the tasks."""
        done_s = self._forecast(self._jobs(), self.settings.capacity or self.measured_rate, MAX_STEPS).done_s
        return {**done_s, **dict.fromkeys(self._failing(), None)}

    def etas(self) -> Mapping[str, float]:
        """Return the seconds until each task is done, as `outlook` does."""
        return self.outlook().etas

    def outlook(self) -> Outlook:
        """Return the seconds until each task is done, if that can be predicted from the current rate, and the rates.

        If the workers send less than capacity and caps allow, their rate is used as the capacity. A task with targets
        to retry is not done before the retry is due. There is no prediction for a task whose audience is still being
        submitted, unless its expected size is known and not yet reached, and none for one whose tries fail.
        """
        steps, jobs = max(20, _ETA_WORK // max(1, len(self.tasks))), self._jobs()
        prediction = self._forecast(jobs, self.settings.capacity or self.measured_rate, steps)
        if self._rates_are_known() and self._workers_limit(prediction.rates):
            if not self.measured_rate:
                return Outlook()
            prediction = self._forecast(jobs, self.measured_rate, steps)
        retry_s = {task.id: (task.last_error.retry_ms - self.now_ms) / 1000 for task in self.tasks if task.last_error}
        endless = {task.id for task in self.tasks if not task.sealed and task.expected_targets <= task.targets.total}
        endless.update(self._failing())
        etas = {
            task: max(seconds, retry_s.get(task, 0.0))
            for task, seconds in prediction.done_s.items()
            if seconds is not None and task not in endless and prediction.rates.get(task, 0.0) < math.inf
        }
        return Outlook(etas, prediction.steps)

    def _workers_limit(self, rates: Mapping[str, float]) -> bool:
        """Return whether the workers send less than these rates, even if slow caps had let nothing through lately."""
        allowed = sum(rates.values())
        if self.measured_rate >= _WORKERS_LIMIT * allowed:
            return False
        jobs = [job_of_view(task, self.now_ms) for task in self.tasks if rates.get(task.id)]
        unseen = binding_caps(jobs, [rates[job.id] for job in jobs], shares_of(self.settings))
        return self.measured_rate < _WORKERS_LIMIT * (allowed - sum(unseen.values()))

    def _failing(self) -> list[str]:
        return [task.id for task in self.tasks if task.last_error and fails_by(task, self.now_ms)]

    def _rates_are_known(self) -> bool:
        return any(
            task.state == "running"
            and task.targets.pending
            and 0 < task.first_outcome_ms < self.now_ms - RATES_KNOWN_MS
            for task in self.tasks
        )

    def _jobs(self) -> list[ForecastTask]:
        return [job_of_view(task, self.now_ms, with_unpublished=True) for task in self.tasks]

    def _forecast(self, jobs: Sequence[ForecastTask], capacity: float, max_steps: int) -> Forecast:
        return forecast(jobs, shares_of(self.settings, capacity), max_steps)


def job_of_view(task: TaskView, now_ms: int, *, with_unpublished: bool = False) -> ForecastTask:
    """Return the task as the forecast sees it. `with_unpublished`: include targets that are expected and not yet
    published."""
    weight, start_s = max(1, round(task.weight * 1000)), max(0, task.start_ms - now_ms) / 1000
    on_hold = task.state not in ("running", "scheduled") or (task.hold_until_sealed and not task.sealed)
    targets = task.targets
    unpublished = max(0, task.expected_targets - targets.total) if with_unpublished and not task.sealed else 0
    pending = float(targets.pending + unpublished)
    return ForecastTask(
        id=task.id,
        app=task.app,
        channel=task.channel,
        tier=task.tier,
        weight=weight,
        pending=pending,
        cap=task.cap,
        start_s=start_s,
        on_hold=on_hold,
        per_request=targets_per_request(task.channel, task.chunk),
        chunk=task.chunk,
    )
