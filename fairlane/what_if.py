"""What a change would do to the tasks there are: when each is done, before and after."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from dispatcher.forecast import Shares, forecast
from dispatcher.service_settings import Cap
from dispatcher.tier import MILLI
from dispatcher.view import Globals, TaskView
from fairlane.signals import job_of_view, shares_of

_SAME_S = 0.5
"""Ends that move by less than this, and by less than one per cent, are the same."""
_SAME_PART = 0.01


class Effect(NamedTuple):
    """A task whose end moves. eta_s, eta_after_s: seconds until it is done; None if that cannot be foreseen (it is
    paused, waits for its audience, or nothing is sent)."""

    task: str
    app: str
    tier: str
    pending: int
    eta_s: float | None
    eta_after_s: float | None

    @property
    def later_s(self) -> float:
        """How much later it is done; inf: never, -inf: no longer never."""
        if self.eta_s is None or self.eta_after_s is None:
            return 0.0 if self.eta_s == self.eta_after_s else math.inf if self.eta_after_s is None else -math.inf
        return self.eta_after_s - self.eta_s


class Situation(NamedTuple):
    """tasks: the live ones. measured_rate: targets/s that are sent; it counts as the capacity where none is set.
    now_ms: wall time."""

    tasks: Sequence[TaskView]
    settings: Globals
    measured_rate: float
    now_ms: int

    def done_s(self) -> dict[str, float | None]:
        """Seconds until each task is done. With neither a capacity nor a rate, only caps tell."""
        shares, jobs = self._shares(), [job_of_view(task, self.now_ms, whole=True) for task in self.tasks]
        return forecast(jobs, shares).done_s

    def _shares(self) -> Shares:
        return shares_of(self.settings, self.settings.capacity or self.measured_rate)


def effects(before: Situation, after: Situation) -> list[Effect]:
    """The tasks whose ends move, the most affected first."""
    was, will = before.done_s(), after.done_s()
    found = [
        Effect(task.id, task.app, task.tier, task.targets.pending, was[task.id], will[task.id]) for task in after.tasks
    ]
    return sorted((effect for effect in found if _moves(effect)), key=lambda effect: -abs(effect.later_s))


def changed(task: TaskView, fields: Mapping[str, str]) -> TaskView:
    """A task after a change of its controls. fields: as in ControlChange."""
    values: dict[str, object] = {}
    for field, text in fields.items():
        match field:
            case "weight":
                values["weight"] = int(text) / MILLI
            case "tier":
                values["tier"] = text
            case "cap":
                values["cap"] = Cap.parse(text).rate
            case "paused":
                values["state"] = "paused" if text == "1" else "running"
            case "cancelled":
                values["state"] = "cancelled"
            case "stopped":
                values["state"] = "failed"
    return msgspec.structs.replace(task, **values)


def _moves(effect: Effect) -> bool:
    by_s, eta_s = abs(effect.later_s), effect.eta_s or 0.0
    return by_s > max(_SAME_S, eta_s * _SAME_PART)
