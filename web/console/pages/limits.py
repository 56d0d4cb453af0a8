"""Limits: which weight, cap, limit or pause binds, and what if one changes?"""

import time
from collections.abc import Callable, Mapping
from functools import partial
from operator import methodcaller
from typing import Any
from urllib.parse import quote

from dispatcher.analysis.verdict import limits_at
from dispatcher.model.errors import InvalidInput
from dispatcher.model.flow_pause import flow_parts
from dispatcher.model.pools import Cap, Limits, Pool, pools_of, quota_pool
from dispatcher.model.tier import TIERS
from dispatcher.model.values import counted, listed
from dispatcher.model.view import Globals
from fairlane.figures.signals import ServiceState, SignalMeter
from fairlane.figures.usage import apps, channels, quotas
from producers.control.service_controls import ServiceControls
from producers.desk.board.groups import TaskGroup, announced, merged
from producers.desk.operator_desk import ServicePreview
from web.console.causes import failing_tasks
from web.console.given import body, need, seconds, texts
from web.console.page import Done, Elsewhere, Form, Page, Plan, Visit
from web.console.steering import MAX_NAMED
from web.routes.service import AppChanges, ChannelChanges, ServiceChanges


def read(visit: Visit) -> dict[str, Any]:
    desk = visit.desks.service
    client, groups = desk.client("signals.show"), visit.desks.board.groups()
    client.check_counts()
    settings, states = client.globals(), client.cap_states()
    jobs = [group.job for group in merged(groups, settings)]
    signals = SignalMeter().take(ServiceState(time.time(), jobs, settings, client.workers()))
    tables = {
        "tiers": [tier._asdict() for tier in signals.tiers],
        "channels": list(map(vars, channels(settings, groups, states))),
        "apps": list(map(vars, apps(settings, groups))),
        "quotas": quotas(settings),
    }
    chosen = Pool(*(visit.query.get(kind, "") for kind in Pool._fields))
    present, age = _present(settings, chosen), visit.desks.board.age()
    failing = {task.channel for task in failing_tasks(visit.desks.board)}
    shown = {
        "failing": failing,
        "announced": announced(groups),
        "settings": settings,
        "signals": signals,
        "age": age,
        "chosen": chosen,
        "present": present,
    }
    return {**shown, **tables, "rows": tables}


Asked = tuple[str, Callable[[ServiceControls], None]]
"""The change that a form asks for: in words, and what makes it."""


def _new(visit: Visit, settings: Globals, *names: str) -> dict[str, str]:
    """Return the form without what is so already. names: of the fields that name its pool."""
    present = _present(settings, Pool(**texts(visit.form, *names)))
    return {name: text for name, text in visit.form.items() if name in names or text.strip() != present.get(name)}


def _service(visit: Visit, settings: Globals) -> Asked:
    form = _new(visit, settings)
    given = body(ServiceChanges, form, tiers=texts(form, *map(str, TIERS)) or None)
    return "Change the service", given.make


def _present(settings: Globals, pool: Pool) -> dict[str, str]:
    """Return the fields of the forms as they are: of the service, and of a channel, an app or a quota group."""
    app, channel, group = pool
    pools = pools_of(app, channel)
    name = pools.app_channel if app and channel else pools.channel if channel else pools.app
    name = quota_pool(group) if group else name
    cap, limits = settings.caps.get(name), settings.limits.get(app, Limits())
    return {
        "capacity": Cap(settings.capacity, settings.burst).text if settings.capacity else "none",
        **{tier: f"{weight:g}" for tier, weight in settings.tier_weights.items()},
        "sharing": settings.sharing,
        "cap": cap.text if cap else "",
        "unit": str(settings.unit(name)),
        "weight": f"{settings.app_weights.get(app, 1):g}" if app else "",
        **{kind: str(most) if most else "" for kind, most in limits._asdict().items()},
    }


def _channel(visit: Visit, settings: Globals) -> Asked:
    name, form = need(visit.form, "channel"), _new(visit, settings, "channel", "app")
    if "paused" in form:  # the other button of the form
        form.pop("cap", None)
    given = body(ChannelChanges, form, for_s=seconds(form, "for_s"))
    who = f"app {given.app} on channel {name}" if given.app else f"channel {name}"
    does = _caps(given.cap) if given.paused is None else "Pause" if given.paused else "Resume"
    return f"{does} {who}", partial(given.make, name)


def _app(visit: Visit, settings: Globals) -> Asked:
    name = need(visit.form, "app")
    given = body(AppChanges, _new(visit, settings, "app"))
    does = "Change" if given.weight or given.tasks is not None or given.targets is not None else _caps(given.cap)
    return f"{does} app {name}", partial(given.make, name)


def _quota(visit: Visit, _: Globals) -> Asked:
    group, joins = need(visit.form, "quota"), visit.form.get("joins", "")
    if not joins:
        cap = Cap.of(need(visit.form, "cap"))
        change = methodcaller("cap_quota", group, cap, visit.form.get("unit", "target"))
        return f"{_caps(cap.text)} quota group {group}", change
    channel, app = need(visit.form, "channel"), need(visit.form, "app")
    who = f"app {app} on channel {channel}"
    if joins == "true":
        return f"Add {who} to quota group {group}", methodcaller("join_quota", group, channel, app)
    return f"Remove {who} from its quota group", methodcaller("leave_quota", channel, app)


def _caps(cap: int | str | None) -> str:
    """Return what is done to a cap."""
    return "Change" if cap is None else f"Set a cap of {cap}/s for" if Cap.of(cap).rate else "Remove the cap of"


def preview(visit: Visit, form: str, fields: Mapping[str, str]) -> ServicePreview:
    """Return what a form of this page would do. Raises InvalidInput."""
    desk = visit.desks.service
    _, change = _ASKED[form](visit._replace(form=fields), desk.client("service.set").globals())
    return desk.preview_service("service.set", change)


def _plan(asked_of: Callable[[Visit, Globals], Asked], visit: Visit) -> Plan:
    desk, is_confirmed = visit.desks.service, bool(visit.form.get("confirm"))
    title, change = asked_of(visit, desk.client("service.set").globals())
    made = desk.preview_service("service.set", change, foresee=not is_confirmed)
    if not (changes := _differences(made.before, made.after)):
        raise _nothing(title, visit, made.before)
    concerned = [each for each in visit.desks.board.groups() if _of(made.before, each) != _of(made.after, each)]
    tasks, targets = sum(group.tasks for group in concerned), sum(group.pending for group in concerned)
    lines = [f"This concerns {counted(tasks, 'live task')} with {counted(targets, 'waiting target')}."]
    if made.effects:
        lines.append(f"{counted(len(made.effects), 'task')} would end at another time:")
    effects = None if is_confirmed else made.effects
    return Plan(title, changes, lines, effects, tasks=tasks, targets=targets)


def _nothing(title: str, visit: Visit, settings: Globals) -> InvalidInput:
    """Return why a change would change nothing."""
    channel, app = (visit.form.get(name, "").strip() for name in ("channel", "app"))
    paused = sorted(each for name, each in map(flow_parts, settings.flow_pauses) if name == channel)
    if visit.form.get("paused") == "false" and app and channel in settings.paused_channels:
        cause = f"App {app} is not paused on channel {channel} itself, but the whole channel is paused."
        return Elsewhere(cause, limits_at(Pool(channel=channel)))
    if visit.form.get("paused") == "false" and not app and paused:
        cause = f"Channel {channel} is not paused, but of its apps are paused: {listed(paused, MAX_NAMED)}."
        return Elsewhere(cause, limits_at(Pool(paused[0], channel)))
    return InvalidInput(f"{title}: this is set already.", "Nothing was changed.")


def _apply(asked_of: Callable[[Visit, Globals], Asked], visit: Visit) -> Done:
    client = visit.desks.service.client("service.set")
    title, change = asked_of(visit, client.globals())
    to = f"/tasks/{quote(task)}" if (task := visit.form.get("task", "")) else ""
    return Done(f"{title}: this is done, and in the audit. {client.change_service(change)}".strip(), to)


def _of(settings: Globals, group: TaskGroup) -> tuple[object, ...]:
    """Return the settings that tasks are subject to."""
    app, channel = group.app, group.channel
    caps = {pool: (settings.caps[pool], settings.unit(pool)) for pool in settings.pools_of(app, channel)}
    own = settings.stops(channel, app), caps, settings.app_weight(app), settings.limits_of(app)
    return own, settings.capacity, settings.burst, settings.tier_weights, settings.sharing


def _differences(before: Globals, after: Globals) -> list[str]:
    old, new = _words(before), _words(after)
    names = [name for name in old | new if old.get(name) != new.get(name)]
    unset = {"Channel": "running", "App": "running", "Weight": "1", "Unit": "target"}
    was, will = ([each.get(name, unset.get(name.split()[0], "none")) for name in names] for each in (old, new))
    return [f"{name}: {before} → {after}" for name, before, after in zip(names, was, will, strict=True)]


def _words(settings: Globals) -> dict[str, str]:
    """Return the settings in words, by their names in words."""
    flows = {flow_parts(flow): pause for flow, pause in settings.flow_pauses.items()}
    limits = {(app, kind): most for app, of in settings.limits.items() for kind, most in of._asdict().items()}
    return {
        "Capacity": _cap(Cap(settings.capacity, settings.burst)),
        "Tiers are shared by": settings.sharing,
        **{f"Weight of {tier}": f"{weight:g}" for tier, weight in settings.tier_weights.items()},
        **{f"Weight of app {app}": f"{weight:g}" for app, weight in settings.app_weights.items()},
        **{f"Cap of {Pool.parse(pool) or pool}": _cap(cap) for pool, cap in settings.caps.items()},
        **{f"Channel {channel}": "paused" for channel in settings.paused_channels},
        **{f"App {app} on channel {channel}": f"paused ({pause})" for (channel, app), pause in flows.items()},
        **{f"Limit of {kind} of app {app}": f"{most:,}" for (app, kind), most in limits.items() if most},
        **{f"Quota group of {Pool(*reversed(flow_parts(flow)))}": group for flow, group in settings.quotas.items()},
        **{f"Unit of quota group {group}": unit for group, unit in settings.quota_units.items()},
    }


def _cap(cap: Cap) -> str:
    burst = f" with a burst of {cap.burst:,}" if cap.burst else ""
    return f"{cap.rate:,}/s{burst}" if cap.rate else "none"


_ASKED = {"service": _service, "channel": _channel, "app": _app, "quota": _quota}
PAGE = Page(
    name="limits", path="/limits", title="Limits", action="service.show", read=read,
    forms={name: Form(plan=partial(_plan, asked), apply=partial(_apply, asked)) for name, asked in _ASKED.items()},
)  # fmt: skip
