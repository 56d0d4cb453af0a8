"""Changes that would help a task, the one that ends its present cause first."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import quote

from dispatcher.analysis.why import CHANNEL_PAUSED, FLOW_PAUSED
from dispatcher.model.errors import InvalidInput
from dispatcher.model.pools import Pool
from dispatcher.model.tier import TIERS, Tier
from dispatcher.model.view import Globals, TaskView
from producers.control.task_changes import TaskFilter
from web.console.page import Visit
from web.console.pages.limits import preview
from web.console.steering import changes_of, moved

_OF_CAPACITY = ("cap_total", "tier_share", "task_weight", "app_weight")
"""Causes that a larger capacity reduces."""


class Cure(NamedTuple):
    """A change that may help a task, as a form makes it."""

    text: str
    to: str
    """The address of the form."""
    fields: dict[str, str]


def cures(task: TaskView, cause: str, settings: Globals | None) -> Iterator[Cure]:
    """Yield what ends the cause that holds a task back. settings: for who may change them."""
    if task.state == "paused":
        yield Cure("Resumed", _own_form(task), {"do": "resume"})
    elif cause == "task_cap":
        yield _without_cap(task)
    elif settings is not None:
        yield from _of_settings(task, cause, settings)


def others(task: TaskView, cause: str) -> Iterator[Cure]:
    """Yield changes of a task that may help besides."""
    if task.state == "paused":
        return
    above, to = str(TIERS[max(0, TIERS.index(Tier(task.tier)) - 1)]), _own_form(task)
    yield Cure("Twice the weight", to, {"do": "set", "weight": f"{min(1_000, task.weight * 2):g}"})
    yield Cure(f"Tier {above}", to, {"do": "set", "tier": above})
    if cause != "task_cap":
        yield _without_cap(task)


def what_ifs(visit: Visit, task: TaskView, known: Iterable[Cure]) -> Iterator[dict[str, Any]]:
    """Yield changes with their effects; not those that change nothing or that the app's policy refuses."""
    for cure in known:
        with suppress(InvalidInput):
            kind = cure.to.removeprefix("/limits/")
            if kind != cure.to:
                effects, hides = preview(visit, kind, cure.fields).effects, False
            else:
                made = visit.desks.tasks.preview_change(TaskFilter(ids=(task.id,)), changes_of(cure.fields)[2])
                if not made.plan.changing:
                    continue
                effects, hides = made.effects, made.moves_others
            yield {**cure._asdict(), **moved(effects, task.id, hides=hides)}


def _of_settings(task: TaskView, cause: str, settings: Globals) -> Iterator[Cure]:
    """Yield the change of settings that ends a cause."""
    back, flow = {"task": task.id}, {"channel": task.channel, "app": task.app}
    pool = Pool.parse(cause.removeprefix("cap:"))
    if cause == CHANNEL_PAUSED:
        given = {"channel": task.channel, "paused": "false", **back}
        yield Cure(f"Channel {task.channel} resumed", "/limits/channel", given)
    elif cause == FLOW_PAUSED:
        yield Cure(
            f"App {task.app} resumed on channel {task.channel}", "/limits/channel", {**flow, "paused": "false", **back}
        )
    elif pool:
        unit = {"unit": str(settings.unit(cause.removeprefix("cap:")))} if pool.quota else {}
        named = {kind: name for kind, name in pool._asdict().items() if name}
        form = "quota" if pool.quota else "channel" if pool.channel else "app"
        yield Cure(f"No cap of {pool}", f"/limits/{form}", {**named, **unit, "cap": "none", **back})
    elif settings.capacity and cause in _OF_CAPACITY:
        twice = 2 * settings.capacity
        yield Cure(f"Capacity {twice:,}/s", "/limits/service", {"capacity": str(twice), **back})


def _without_cap(task: TaskView) -> Cure:
    return Cure("No cap of its own", _own_form(task), {"do": "set", "cap": "none"})


def _own_form(task: TaskView) -> str:
    return f"/tasks/{quote(task.id)}/change"
