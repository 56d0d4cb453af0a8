"""The service at one moment: its live tasks, settings and workers. Predicts when each task is done."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Self

from dispatcher.analysis.failing import fails_by, is_incomplete, waits_for_retry
from dispatcher.analysis.forecast import MAX_STEPS, Steps, forecast, present_rates
from dispatcher.analysis.rates import (
    BEHIND_S,
    RATES_MS,
    ForecastTask,
    Shares,
    binding_caps,
    sent_rate,
    shares_of,
    targets_per_request,
)
from dispatcher.analysis.served import Served
from dispatcher.model.view import Globals, TaskView, WorkerBeat

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
    """The service at one moment: the input of a forecast. Call `done_s` or `outlook` for the result."""

    tasks: Sequence[TaskView]
    """The live tasks."""
    settings: Globals
    measured_rate: float
    """Targets/s being sent."""
    now_ms: int
    """Wall time."""
    workers_rate: float = math.inf
    """Targets/s that the workers can send, whatever is allowed; `inf` while that is not known."""

    @classmethod
    def of(cls, tasks: Iterable[TaskView], settings: Globals, beats: Sequence[WorkerBeat], now_ms: int) -> Self:
        """Return the situation by the heartbeats of all workers, without tasks whose channel no worker has."""
        served = Served.by(beats)
        present = cls([task for task in tasks if not served.lacks(task.channel)], settings, sent_rate(beats), now_ms)
        return present._replace(workers_rate=present.shown_rate())

    def shown_rate(self) -> float:
        """Return the targets/s that the workers can send, if the present rate shows it; `inf` if it does not.

        It shows it while targets wait that capacity and caps would let through. Otherwise all that is asked or allowed
        is sent: the workers could send more, and nobody knows how much.
        """
        found = [task for task in self.tasks if self._waits(task)]
        # beside others, one at 0/s shows nothing: its provider, or its small share, holds it back
        waiting = {task.id for task in found if task.rate} or {task.id for task in found}
        in_transit = sum(task.rate for task in self.tasks if task.state == "running" and task.id not in waiting)
        shares = shares_of(self.settings)
        shares = replace(shares, capacity=max(1.0, shares.capacity - in_transit))
        tried = waiting.union(self._failing())  # they use their shares of the capacity, too
        jobs = [job_of_view(task, self.now_ms) for task in self.tasks if task.id in tried]
        rates = present_rates(jobs, shares)
        jobs = [job for job in jobs if job.id in waiting and job.id in rates]
        allowed = _seen(jobs, [rates[job.id] for job in jobs], shares)
        is_shown = jobs and self.measured_rate - in_transit < _WORKERS_LIMIT * allowed
        return self.measured_rate if is_shown else math.inf

    def done_s(self) -> dict[str, float | None]:
        """Return the seconds until each task is done, as settings and workers allow.

        None: it cannot be foreseen. 0: nothing that is known limits the task, so that it is not known how soon.
        """
        return self._ends(MAX_STEPS)[0]

    def outlook(self) -> Outlook:
        """Return the seconds until each task is done, if that can be predicted from the current rate, and the rates.

        A task that nothing is known to limit has the end of its own rate, or of all that is sent if it has just begun.
        There is no prediction for a task whose audience is still being submitted, unless its expected size is known and
        not yet reached, and some of it waits.
        """
        if not self.workers_rate:
            return Outlook()
        done_s, steps = self._ends(max(20, _ETA_WORK // max(1, len(self.tasks))))
        etas: dict[str, float] = {}
        for task in self.tasks:
            seconds = done_s[task.id]
            is_unknown = not task.sealed and task.expected_targets <= task.targets.total
            if seconds is None or is_unknown or is_incomplete(task):
                continue
            if seconds == 0.0 < task.targets.pending:
                rate = task.rate or self.measured_rate
                if task.state != "running" or not rate or waits_for_retry(task, self.now_ms):
                    continue
                seconds = task.targets.pending / rate
            etas[task.id] = seconds
        return Outlook(etas, steps)

    def _ends(self, max_steps: int) -> tuple[dict[str, float | None], Steps]:
        """Return the seconds until each task is done, as `done_s`, and the rates. A task with targets to retry is not
        done before the retry is due, and one whose tries fail has no end."""
        jobs = [job_of_view(task, self.now_ms, with_unpublished=True) for task in self.tasks]
        done_s, free, steps = forecast(jobs, shares_of(self.settings, self.workers_rate), max_steps)
        done_s |= dict.fromkeys(free, 0.0)
        for task in self.tasks:
            seconds = done_s[task.id]
            if seconds and task.last_error:
                done_s[task.id] = max(seconds, (task.last_error.retry_ms - self.now_ms) / 1000)
        return done_s | dict.fromkeys(self._failing(), None), steps

    def _failing(self) -> list[str]:
        return [task.id for task in self.tasks if task.last_error and fails_by(task, self.now_ms)]

    def _waits(self, task: TaskView) -> bool:
        """Return whether a task has been sent for so long that heartbeats show its rate, and more waits than is in
        transit."""
        if task.state != "running" or task.targets.pending <= task.rate * BEHIND_S:
            return False
        is_tried = fails_by(task, self.now_ms) or waits_for_retry(task, self.now_ms)
        return not is_tried and 0 < task.first_outcome_ms < self.now_ms - RATES_KNOWN_MS


def _seen(jobs: Sequence[ForecastTask], rates: Sequence[float], shares: Shares) -> float:
    """Return the part of these rates that heartbeats show: limits let whole envelopes through, and some of them less
    often than rates look back."""
    allowed = sum(rates)
    if allowed == math.inf:
        return allowed
    unseen = sum(binding_caps(jobs, rates, shares).values())
    if shares.capacity < math.inf:
        unseen += max((job.chunk for job in jobs), default=0.0) * 1000 / RATES_MS
    return allowed - unseen


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
