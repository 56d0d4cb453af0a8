"""Overview: is it healthy, what limits the rate, who is last and why, when is all done?"""

import time
from collections.abc import Iterator, Sequence
from math import inf, isfinite
from typing import Any

from markupsafe import Markup

from dispatcher.analysis.forecast import forecast
from dispatcher.analysis.rates import shares_of
from dispatcher.analysis.served import Served
from dispatcher.analysis.verdict import Held, Scene, verdict
from dispatcher.analysis.why import UNKNOWN, Why, present
from dispatcher.model.errors import NotFound
from dispatcher.model.pools import Pool
from dispatcher.model.tier import TIERS
from dispatcher.model.values import duration
from dispatcher.model.view import Globals, TaskView
from fairlane.figures.audit_rows import audit_fields
from fairlane.figures.signals import ServiceState, SignalMeter, Signals
from fairlane.pages import picture
from producers.desk.board.groups import TaskGroup
from producers.desk.board.lists import Sort
from web.console.page import Page, Visit

SHOWN, STUCK = 8, 4
"""Tasks that are shown, and how many of them may be without an end if others have one."""
SPAN_MS = 1_800_000
"""The chart shows this time back and ahead."""
_GAP_MS = 35_000
"""Rows further apart have nothing known between them."""
_BY_END = Sort("eta")


def read(visit: Visit) -> dict[str, Any]:
    """Return the verdict and the tasks that wait; to operators of all apps, the service too."""
    groups = visit.desks.board.groups()
    service = {} if visit.desks.principal.app else _service(visit, groups)
    signals: Signals | None = service.get("signals")
    endless, ending, age, counts = _waiting(visit)
    held = [each for task in endless[:SHOWN] if (each := _held(visit, task, service))]
    held_last = [each for task in ending if (each := _held(visit, task, service))]
    scene = Scene(
        now_ms=int(time.time() * 1000),
        waiting=sum(group.pending for group in groups),
        last=held_last[0][0] if held_last else None,
        endless=[each for each, _ in held],
    )
    if signals is not None:
        scene = scene._replace(
            settings=service["settings"], beats=service["workers"], serving=signals.workers,
            limited_by=signals.limited_by, missing=signals.missing, tasks_of=counts["app"],
        )  # fmt: skip
    shown = [*held[: STUCK if held_last else SHOWN], *held_last][:SHOWN]
    settled = sum(group.settled for group in groups)
    return {
        "age": age,
        "verdict": verdict(scene),
        "waiting": scene.waiting,
        "tasks": sum(counts["state"].values()),
        "drain_s": ending[0].eta_s if ending else None,
        "settled": settled,
        "given_up": sum(group.given_up for group in groups) / settled if settled else None,
        "shown": [{"task": each.task, "code": each.cause, "text": present(each.cause), "why": why} for each, why in shown],
        "rows": [{"id": each.task.id, "app": each.task.app, "tier": each.task.tier, "pending": each.task.targets.pending, "cause": each.cause, "eta_s": each.task.eta_s} for each, _ in shown],
        "service": service,
        "chart": _chart(service, groups, ending) if service else "",
    }  # fmt: skip
