"""Overview: is it healthy, what limits the rate, who is last and why, when is all done?"""

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from math import inf
from typing import Any, NamedTuple

from dispatcher.analysis.failing import is_incomplete
from dispatcher.analysis.verdict import Held, Scene, verdict
from dispatcher.analysis.why import AUDIENCE, UNKNOWN, CauseShare, pool_text
from dispatcher.model.pools import CapUnit
from dispatcher.model.values import duration
from dispatcher.model.view import Globals, TaskView
from fairlane.figures.audit_rows import audit_fields
from fairlane.figures.rows import task_fields
from fairlane.figures.signals import ServiceState, SignalMeter, Signals
from fairlane.figures.usage import channels
from producers.desk.board.groups import TaskGroup, merged
from producers.desk.board.lists import Sort
from producers.desk.history import arrivals
from web.console.causes import cause_now, failing_tasks, settings_known
from web.console.chart import SPAN_MS, chart, spark
from web.console.page import Page, Visit

SHOWN, STUCK = 8, 4
"""Tasks that are shown, and how many of them may be without an end while others have one."""
_LAST_FIRST = Sort("eta", descending=True)


class Limit(NamedTuple):
    """Capacity or a cap (0: none), how much of it is used, and whether it holds anything back."""

    binds: bool
    used: float
    cap: int
    name: str
    pool: str = ""


def read(visit: Visit) -> dict[str, Any]:
    """Return the verdict and the tasks that wait; to operators the service, too."""
    principal, board = visit.desks.principal, visit.desks.board
    groups, now_ms, settings = board.groups(), round(time.time() * 1000), settings_known(visit)
    listed = board.tasks({"state": "running"}, str(_LAST_FIRST), SHOWN, None)
    paused = board.tasks({"state": "paused"}, str(_LAST_FIRST), SHOWN, None).tasks
    failing = failing_tasks(board)
    ending = board.tasks({"state": "running"}, str(_LAST_FIRST), SHOWN, _LAST_FIRST.cursor((inf, ""))).tasks
    seen = {task.id: task for task in (*failing, *listed.tasks, *ending, *paused)}.values()
    stuck = [*failing, *(task for task in seen if _waits(task) and task not in failing)]
    ending = sorted((task for task in seen if task.eta_s is not None), key=lambda task: -(task.eta_s or 0))
    first = stuck[: STUCK if ending else SHOWN]
    ending = ending[: SHOWN - len(first)]
    later = [task for task in seen if task.eta_s is None and task.rate]
    later += board.tasks({"state": "scheduled"}, "eta", SHOWN, None).tasks
    held = _held(visit, settings, [*first, *ending, *later[: SHOWN - len(first) - len(ending)]])
    endless, last = ([held[task.id]["held"] for task in tasks if task.id in held] for tasks in (first, ending))
    scene = Scene(
        now_ms=now_ms,
        waiting=sum(group.pending for group in groups if group.state != "scheduled"),
        scheduled=listed.counts["state"].get("scheduled", 0),
        last=last[0] if last else None,
        endless=endless,
    )
    service: dict[str, Any] = {}
    if settings is not None and not principal.app:
        service = _service(visit, settings, groups, [each.task for each in last], now_ms)
        scene = scene._replace(**service["scene"], tasks_of=listed.counts["app"])
    settled = sum(group.settled for group in groups)
    shown = list(held.values())
    return {
        "verdict": verdict(scene),
        "age": listed.age,
        "states": listed.counts["state"],
        "scene": scene,
        "settled": settled,
        "given_up": sum(group.given_up for group in groups) / settled if settled else None,
        "shown": shown,
        "failing": {task.channel for task in failing},
        "rows": {
            "tasks": [
                {**task_fields(held.task), "cause": held.cause, "meaning": held.text}
                for held in (each["held"] for each in shown)
            ],
            **service.get("rows", {}),
        },
        "service": service,
    }


def _waits(task: TaskView) -> bool:
    return task.eta_s is None and not task.rate and (task.targets.pending > 0 or is_incomplete(task))


def _held(visit: Visit, settings: Globals | None, tasks: Sequence[TaskView]) -> dict[str, dict[str, Any]]:
    """Return tasks by id with what holds them back, and the largest causes; not those that are not known any more."""
    found = dict[str, dict[str, Any]]()
    known = {why.task: why for why in visit.desks.tasks.whys([task.id for task in tasks])}
    for task in tasks:
        if (why := known.get(task.id)) is None:
            continue
        parts = {part.cause: part.ms / max(1, why.age_ms) for part in why.parts}
        held = Held(task, *cause_now(task, why.now, why.last, why.flow_pause, settings))
        if held.cause == AUDIENCE:
            silent_s = sum(part.ms for part in why.parts if part.cause == AUDIENCE) / 1000
            held = held._replace(text=f"{held.text}, and none for {duration(silent_s)}")
        past = "" if held.cause else next((cause for cause in parts if cause != UNKNOWN), "")
        largest = [(part.meaning, parts[part.cause]) for part in why.parts[:3]]
        was = CauseShare(past, 0).meaning
        found[task.id] = {"held": held, "parts": largest, "part": parts.get(held.cause or past), "past": was}
    return found


def _service(
    visit: Visit, settings: Globals, groups: Sequence[TaskGroup], ending: Sequence[TaskView], now_ms: int
) -> dict[str, Any]:
    """Return the figures of the whole service. Raises NotReady while its view is being rebuilt."""
    desk = visit.desks.service
    client = desk.client("signals.show")
    client.check_counts()
    beats = [beat for beat in client.workers() if beat.state != "stopped"]
    alike, history = merged(groups, settings), desk.history(SPAN_MS / 1000)
    signals = SignalMeter().take(ServiceState(now_ms / 1000, [group.job for group in alike], settings, beats))
    past = [*((row.at_ms, row.rates) for row in history), (now_ms, [tier.rate for tier in signals.tiers])]
    arriving = arrivals(history)
    limits = sorted(_limits(signals, settings, groups, alike), reverse=True)
    tables: dict[str, list[Any]] = {
        "tiers": [tier._asdict() for tier in signals.tiers],
        "limits": [limit._asdict() for limit in limits],
        "channels": list(map(asdict, channels(settings, groups))),
        "audit": [audit_fields(entry) for entry in desk.client("audit.list").audit(5)],
    }
    return {
        "scene": {
            "settings": settings, "beats": beats, "serving": signals.workers, "limited_by": signals.limited_by,
            "missing": signals.missing,
        },
        "signals": signals,
        "arriving": sum(arriving[-1:]),
        "sparks": {
            "sending": spark([sum(rates) for _, rates in past]),
            "waiting": spark([sum(row.backlog) for row in history]),
            "arriving": spark(arriving),
        },
        "nodes": desk.nodes(),
        **tables,
        "limits": limits[:SHOWN],
        "rows": tables,
        "chart": chart(past, desk.ahead(), now_ms, settings.capacity, ending),
    }  # fmt: skip


def _limits(
    signals: Signals, settings: Globals, groups: Sequence[TaskGroup], alike: Sequence[TaskGroup]
) -> Iterator[Limit]:
    """Yield capacity and caps. alike: the groups that may be sent, merged."""
    yield Limit(signals.limited_by == "capacity", signals.rate, settings.capacity, "Capacity")
    used = defaultdict[str, float](float)
    for group in groups:
        for pool in settings.pools_of(group.app, group.channel) if group.rate else ():
            used[pool] += group.rate / (group.per_request if settings.unit(pool) is CapUnit.REQUEST else 1)
    for pool, cap in settings.caps.items():
        yield Limit(pool in signals.caps, used[pool], cap.rate, pool_text(pool), pool)
    for group in alike:
        if group.is_capped:
            name = f"own caps of {group.tasks:,} tasks" if group.tasks > 1 else f"task {group.name}"
            yield Limit(f"task/{group.name}" in signals.caps, group.rate, group.cap, name)


PAGE = Page(name="overview", path="/", title="Overview", action="tasks.list", read=read)
