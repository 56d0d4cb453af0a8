"""Limits: which weight, cap, limit or pause binds, and what if one changes?"""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple

from dispatcher.model.errors import InvalidInput
from dispatcher.model.flow_pause import flow_parts
from dispatcher.model.pools import Cap, Pool
from dispatcher.model.tier import TIERS
from dispatcher.model.values import counted
from dispatcher.model.view import Globals
from fairlane.figures.signals import ServiceState, SignalMeter
from fairlane.figures.usage import apps, channels, quotas
from producers.control.service_controls import ServiceControls
from web.console.given import need, number, seconds, texts
from web.console.page import Done, Form, Page, Plan, Visit


def read(visit: Visit) -> dict[str, Any]:
    desk = visit.desks.service
    client, groups = desk.client("signals.show"), visit.desks.board.groups()
    client.check_counts()
    settings, states = client.globals(), client.cap_states()
    state = ServiceState(time.time(), [group.job for group in groups], settings, client.workers())
    signals = SignalMeter().take(state)
    tables = {
        "tiers": [tier._asdict() for tier in signals.tiers],
        "channels": list(map(asdict, channels(settings, groups, states))),
        "apps": list(map(asdict, apps(settings, groups))),
        "quotas": quotas(settings),
    }
    shown = {"settings": settings, "signals": signals, "age": visit.desks.board.age(), **tables}
    return {**shown, "rows": tables.get(visit.query.get("table", ""), tables["tiers"])}


class Asked(NamedTuple):
    """What a form asks for."""

    title: str
    action: str
    change: Callable[[ServiceControls], None]


def _capacity(form: Mapping[str, str]) -> Asked:
    cap = Cap.parse(need(form, "capacity"), "capacity")
    change = partial(ServiceControls.set_capacity, targets_per_s=cap.rate, burst=cap.burst)
    return Asked(f"Set the capacity to {_cap(cap)}", "service.set", change)


def _tiers(form: Mapping[str, str]) -> Asked:
    weights = {str(tier): number(need(form, tier), tier) for tier in TIERS}
    words = ", ".join(f"{tier} {weight:g}" for tier, weight in weights.items())
    return Asked(f"Set the weights to {words}", "service.set", lambda service: service.set_tiers(**weights))


def _sharing(form: Mapping[str, str]) -> Asked:
    shared_by = need(form, "sharing")
    return Asked(f"Share each tier by {shared_by}", "service.set", lambda service: service.set_sharing(shared_by))


def _channel(form: Mapping[str, str]) -> Asked:
    name, app, do = need(form, "channel"), form.get("app", "").strip(), form.get("do")
    who = f"app {app} on channel {name}" if app else f"channel {name}"
    if do in ("pause", "resume"):
        for_s = seconds(given["for"], "for") if (given := texts(form, "for")) else None
        reason, paused = form.get("reason", "").strip(), do == "pause"
        if not app and paused and (for_s or reason):
            raise InvalidInput("for, reason: only the pause of one app has an end and a reason.", "Name the app.")

        def change(service: ServiceControls) -> None:
            if not app:
                service.pause_channel(name, paused=paused)
            elif paused:
                service.pause_flow(name, app, for_s, reason)
            else:
                service.resume_flow(name, app)

        return Asked(f"{do.title()} {who}", "channel.set", change)
    cap = Cap.parse(need(form, "cap"), "cap")
    cap_it: Callable[[ServiceControls], None] = (
        (lambda service: service.cap_app(app, cap, name)) if app else (lambda service: service.cap_channel(name, cap))
    )
    return Asked(f"Set the cap of {who} to {_cap(cap)}", "channel.set", cap_it)


def _app(form: Mapping[str, str]) -> Asked:
    name, given = need(form, "app"), texts(form, "cap", "weight", "tasks", "targets")
    cap = Cap.parse(given["cap"], "cap") if "cap" in given else None
    numbers = {field: number(text, field) for field, text in given.items() if field != "cap"}

    def change(service: ServiceControls) -> None:
        if cap is not None:
            service.cap_app(name, cap)
        if "weight" in numbers:
            service.weigh_app(name, numbers["weight"])
        if limits := {field: numbers[field] for field in ("tasks", "targets") if field in numbers}:
            service.limit_app(name, **limits)  # type: ignore[arg-type]  # it checks that they are whole

    words = ", ".join(f"{field} {text}" for field, text in given.items())
    return Asked(f"Set {words} of app {name}", "app.set", change)


def _plan(asked_of: Callable[[Mapping[str, str]], Asked], visit: Visit) -> Plan:
    asked = asked_of(visit.form)
    made = visit.desks.service.preview_service(asked.action, asked.change)
    lines, pending = _differences(made.before, made.after), sum(effect.pending for effect in made.effects)
    if not lines:
        raise InvalidInput(f"{asked.title}: this is set already.", "Nothing was changed.")
    if made.effects:
        moved = counted(len(made.effects), "task")
        lines.append(f"{moved} with {counted(pending, 'waiting target')} would end at another time:")
    return Plan(asked.title, lines, made.effects, tasks=len(made.effects), targets=pending)


def _apply(asked_of: Callable[[Mapping[str, str]], Asked], visit: Visit) -> Done:
    asked = asked_of(visit.form)
    lacks_redis = visit.desks.service.client(asked.action).change_service(asked.change)
    return Done(f"{asked.title}: this is done, and in the audit. {lacks_redis}".strip())


def _differences(before: Globals, after: Globals) -> list[str]:
    old, new = _words(before), _words(after)
    names = [name for name in old | new if old.get(name) != new.get(name)]
    return [f"{name}: {old.get(name, 'not set')} → {new.get(name, 'not set')}" for name in names]


def _words(settings: Globals) -> dict[str, str]:
    """Return the settings in words, by their names in words."""
    flows = {flow_parts(flow): pause for flow, pause in settings.flow_pauses.items()}
    limits = {app: limits._asdict() for app, limits in settings.limits.items()}
    return {
        "Capacity": _cap(Cap(settings.capacity, settings.burst)),
        "Tiers are shared by": settings.sharing,
        **{f"Weight of {tier}": f"{weight:g}" for tier, weight in settings.tier_weights.items()},
        **{f"Weight of app {app}": f"{weight:g}" for app, weight in settings.app_weights.items()},
        **{f"Cap of {Pool.parse(pool) or pool}": _cap(cap) for pool, cap in settings.caps.items()},
        **{f"Channel {channel}": "paused" for channel in settings.paused_channels},
        **{f"App {app} on channel {channel}": f"paused ({pause})" for (channel, app), pause in flows.items()},
        **{
            f"Limit of {kind} of app {app}": f"{most:,}"
            for app, of in limits.items()
            for kind, most in of.items()
            if most
        },
    }


def _cap(cap: Cap) -> str:
    burst = f" with a burst of {cap.burst:,}" if cap.burst else ""
    return f"{cap.rate:,}/s{burst}" if cap.rate else "none"


_ASKED = {"capacity": _capacity, "tiers": _tiers, "sharing": _sharing, "channel": _channel, "app": _app}
PAGE = Page(
    name="limits", path="/limits", title="Limits", action="service.show", read=read,
    forms={name: Form(plan=partial(_plan, asked), apply=partial(_apply, asked)) for name, asked in _ASKED.items()},
)  # fmt: skip
