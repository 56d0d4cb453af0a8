"""What a change would do to the tasks there are: when each is done, before and after."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from dispatcher.analysis.situation import Situation
from dispatcher.model.service_settings import Cap
from dispatcher.model.tier import MILLI
from dispatcher.model.view import TaskView

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
