"""Overview: is it healthy, what limits the rate, who is last and why, when is all done?"""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from math import inf
from typing import Any, NamedTuple

from dispatcher.access.principal import Scope
from dispatcher.analysis.served import Served
from dispatcher.analysis.verdict import Held, Scene, verdict
from dispatcher.analysis.why import UNKNOWN, CauseShare, Why, pool_text
from dispatcher.model.errors import NotFound
from dispatcher.model.flow_pause import flow_parts
from dispatcher.model.pools import CapUnit
from dispatcher.model.view import Globals, TaskView
from fairlane.figures.audit_rows import audit_fields
from fairlane.figures.signals import ServiceState, SignalMeter, Signals
from fairlane.figures.why_rows import now_text
from producers.desk.board.groups import TaskGroup, merged
from producers.desk.board.lists import Sort
from web.console.chart import SPAN_MS, chart
from web.console.page import Page, Visit

SHOWN, STUCK = 8, 4
"""Tasks that are shown, and how many of them may be without an end while others have one."""
_LAST_FIRST = Sort("eta", descending=True)


class Limit(NamedTuple):
    """Capacity, or a cap: how much of it is used, a second, and whether it holds anything back."""

    name: str
    used: float
    cap: int  # 0: none
    binds: bool

    @property
    def part(self) -> float:
        return self.used / self.cap if self.cap else 0.0


def read(visit: Visit) -> dict[str, Any]:
    """Return the verdict and the tasks that wait; to operators the service, too."""
    principal, board = visit.desks.principal, visit.desks.board
    groups, now_ms = board.groups(), round(time.time() * 1000)
    listed = board.tasks({"state": "running"}, str(_LAST_FIRST), SHOWN, None)
    paused = board.tasks({"state": "paused"}, str(_LAST_FIRST), SHOWN, None).tasks
    ending = board.tasks({"state": "running"}, str(_LAST_FIRST), SHOWN, _LAST_FIRST.cursor((inf, ""))).tasks
    stuck = [task for task in (*listed.tasks, *paused) if task.eta_s is None and task.targets.pending]
    endless = _held(visit, stuck[: STUCK if ending else SHOWN])
    last = _held(visit, ending[: SHOWN - len(endless)])
    scene = Scene(
        now_ms=now_ms,
        waiting=sum(group.pending for group in groups if group.state != "scheduled"),
        scheduled=listed.counts["state"].get("scheduled", 0),
        last=last[0][0] if last else None,
        endless=[held for held, _ in endless],
    )
    service: dict[str, Any] = {}
    if principal.may(Scope.OPERATOR) and not principal.app:
        service = _service(visit, groups, [held.task for held, _ in last], now_ms)
        scene = scene._replace(**service["scene"], tasks_of=listed.counts["app"])
    settled = sum(group.settled for group in groups)
    shown = [*endless, *last]
    return {
        "verdict": verdict(scene),
        "age": listed.age,
        "states": listed.counts["state"],
        "waiting": scene.waiting,
        "drain_s": scene.last.task.eta_s if scene.last else None,
        "settled": settled,
        "given_up": sum(group.given_up for group in groups) / settled if settled else None,
        "shown": [{"held": held, **_parts(held, why)} for held, why in shown],
        "rows": [_row(held) for held, _ in shown],
        "service": service,
    }


def _held(visit: Visit, tasks: Iterable[TaskView]) -> list[tuple[Held, Why]]:
    """Return tasks with what holds them back; not those that have ended meanwhile."""
    found: list[tuple[Held, Why]] = []
    for task in tasks:
        try:
            why = visit.desks.tasks.why(task.id)
        except NotFound:
            continue
        cause = why.now or why.last or next((part.cause for part in why.parts if part.cause != UNKNOWN), "")
        text = now_text(why) or ("its targets wait for the next try" if why.now else CauseShare(cause, 0).meaning)
        if cause.startswith("cap:"):
            text = f"the cap of {pool_text(cause)} holds it back"
        found.append((Held(task, cause, text), why))
    return found


def _parts(held: Held, why: Why) -> dict[str, Any]:
    """Return the largest parts of a task's age, and the part of what holds it back now."""
    parts = {part.cause: part.ms / max(1, why.age_ms) for part in why.parts}
    largest = [(part.meaning, parts[part.cause]) for part in why.parts[:3]]
    return {"parts": largest, "part": parts.get(held.cause)}


def _row(held: Held) -> dict[str, Any]:
    fields = {name: getattr(held.task, name) for name in ("id", "app", "tier", "channel", "state", "rate", "eta_s")}
    return {**fields, "pending": held.task.targets.pending, "cause": held.cause, "meaning": held.text}


def _service(visit: Visit, groups: Sequence[TaskGroup], ending: Sequence[TaskView], now_ms: int) -> dict[str, Any]:
    """Return the figures of the whole service. Raises NotReady while its view is being rebuilt."""
    desk = visit.desks.service
    client = desk.client("signals.show")
    client.check_counts()
    settings, beats = client.globals(), [beat for beat in client.workers() if beat.state != "stopped"]
    alike, served, history = merged(groups, settings), Served.by(beats), desk.history(SPAN_MS / 1000)
    signals = SignalMeter().take(ServiceState(now_ms / 1000, [group.job for group in alike], settings, beats))
    past = [*((row.at_ms, row.rates) for row in history), (now_ms, [tier.rate for tier in signals.tiers])]
    lacking = Counter[str]()
    for group in groups:
        lacking[group.channel] += group.tasks if served.lacks(group.channel) and group.pending else 0
    return {
        "scene": {
            "settings": settings, "beats": beats, "serving": signals.workers, "limited_by": signals.limited_by,
            "missing": [each._replace(tasks=lacking[each.channel]) for each in signals.missing],
        },
        "signals": signals,
        "arriving": sum(
            max(0.0, (now - before) * 1000 / (new.at_ms - old.at_ms) + rate)
            for old, new in list(pairwise(history))[-1:]
            for before, now, rate in zip(old.backlog, new.backlog, new.rates, strict=True)
        ),
        "limits": sorted(_limits(signals, settings, groups, alike), key=lambda row: (not row.binds, -row.part))[:SHOWN],
        "channels": list(_channels(settings, groups, served)),
        "audit": [audit_fields(entry) for entry in desk.client("audit.list").audit(5)],
        "chart": chart(past, desk.ahead(), now_ms, settings.capacity, ending),
    }  # fmt: skip


def _limits(
    signals: Signals, settings: Globals, groups: Sequence[TaskGroup], alike: Sequence[TaskGroup]
) -> Iterator[Limit]:
    """Yield capacity and caps. alike: the groups that may be sent, merged."""
    yield Limit("Capacity", signals.rate, settings.capacity, signals.limited_by == "capacity")
    used = defaultdict[str, float](float)
    for group in groups:
        for pool in settings.pools_of(group.app, group.channel) if group.rate else ():
            used[pool] += group.rate / (group.per_request if settings.unit(pool) is CapUnit.REQUEST else 1)
    for pool, cap in settings.caps.items():
        yield Limit(pool_text(pool), used[pool], cap.rate, pool in signals.caps)
    for group in alike:
        if group.is_capped:
            name = f"own caps of {group.tasks:,} tasks" if group.tasks > 1 else f"task {group.name}"
            yield Limit(name, group.rate, group.cap, f"task/{group.name}" in signals.caps)


def _channels(settings: Globals, groups: Sequence[TaskGroup], served: Served) -> Iterator[dict[str, Any]]:
    """Yield channels with their state: the kind of its tag, and its word."""
    pending, rate = Counter[str](), defaultdict[str, float](float)
    for group in groups:
        pending[group.channel] += group.pending
        rate[group.channel] += group.rate
    paused_apps = Counter(flow_parts(flow)[0] for flow in settings.flow_pauses)
    for name in sorted(pending.keys() | settings.paused_channels):
        states = (
            (name in settings.paused_channels, "warn", "paused"),
            (served.lacks(name) or not served.workers, "bad", "no worker"),
            (paused_apps[name] > 0, "bad", f"{paused_apps[name]} paused"),
            (rate[name] > 0, "ok", "sends"),
            (pending[name] > 0, "idle", "waits"),
            (True, "idle", "idle"),
        )
        kind, state = next((kind, state) for holds, kind, state in states if holds)
        yield {"name": name, "kind": kind, "state": state, "pending": pending[name], "rate": rate[name]}


PAGE = Page(name="overview", path="/", title="Overview", action="tasks.list", read=read)
