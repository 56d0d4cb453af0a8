"""Forecasts the effect of a change on the present tasks: when each finishes, before and after."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from dispatcher.analysis.situation import Situation

_SAME_S = 0.5
"""Finish times that differ by less than this, and by less than one per cent, count as equal."""
_SAME_PART = 0.01


class FinishChange(NamedTuple):
    """A task whose finish time changes."""

    task: str
    app: str
    tier: str
    pending: int
    eta_s: float | None
    """Seconds until it finishes without the change. None: it has no end; 0: as fast as the workers can."""
    eta_after_s: float | None
    """The same with the change."""

    @property
    def later_s(self) -> float:
        """Return the change of the finish time in seconds.

        `inf`: the task would no longer finish. `-inf`: it did not finish before and now would.
        """
        if self.eta_s is None or self.eta_after_s is None:
            return 0.0 if self.eta_s == self.eta_after_s else math.inf if self.eta_after_s is None else -math.inf
        return self.eta_after_s - self.eta_s


UNKNOWN = "as fast as the workers can"
"""The end of a task that no known limit holds back, in words."""
WHY_UNKNOWN = (
    "How fast the workers can send is not known: no capacity is set, and they have sent only what was asked or allowed."
)


def effects(before: Situation, after: Situation, was: Mapping[str, float | None] | None = None) -> list[FinishChange]:
    """Return the tasks whose finish times change, the most affected first. was: what `before.done_s` has returned."""
    was, will = was or before.done_s(), after.done_s()
    changes = (
        FinishChange(
            task=task.id,
            app=task.app,
            tier=task.tier,
            pending=task.targets.pending,
            eta_s=was[task.id],
            eta_after_s=will[task.id],
        )
        for task in after.tasks
        if was[task.id] != will[task.id]
    )
    return sorted(filter(_moves, changes), key=lambda effect: -abs(effect.later_s))


def _moves(effect: FinishChange) -> bool:
    by_s, eta_s = abs(effect.later_s), effect.eta_s or 0.0
    return by_s > max(_SAME_S, eta_s * _SAME_PART)
