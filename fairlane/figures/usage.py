"""Channels and apps with their settings and their work in progress."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from dispatcher.model.flow_pause import flow_parts
from dispatcher.model.pools import Cap, CapPhase, CapState, Pool, pools_of, quota_pool
from dispatcher.model.view import Globals
from producers.desk.board.groups import TaskGroup


@dataclass(frozen=True, kw_only=True)
class ChannelUsage:
    """Settings and usage of one channel."""

    channel: str
    paused: bool
    paused_apps: dict[str, dict[str, Any]]
    """By app that is paused on it: `kind`, `reason`, `since_ms`, and `until_ms`, 0 for no end (Redis' time)."""
    cap: int
    """Targets/s; 0 for none."""
    cap_burst: int
    """Targets; 0 for none."""
    lowered_caps: dict[str, dict[str, Any]]
    """Caps of apps on it, and of quota groups with apps on it, of which not all may be used now: `now` and `cap` (a
    second), `unit`, `phase` (halved, growing, ramp, resting), and `until_ms`, its end, 0 for none (Redis' time)."""
    tasks: int
    """Number of live tasks."""
    queued: int
    """Published targets of live tasks that have no outcome."""
    rate: float
    """Targets/s sent recently."""


@dataclass(frozen=True, kw_only=True)
class AppUsage:
    """Settings and usage of one app."""

    app: str
    weight: float
    """Its weight where apps share the capacity."""
    cap: int
    """Targets/s; 0 for none."""
    cap_burst: int
    """Targets; 0 for none."""
    channel_caps: dict[str, int]
    """Targets/s by channel."""
    task_limit: int
    """Maximum number of live tasks; 0: no limit. That of `*` where the app has none of its own."""
    target_limit: int
    """Maximum number of queued targets; 0: no limit. That of `*` where the app has none of its own."""
    tasks: int
    """Number of live tasks."""
    queued: int
    """Targets of live tasks that have no outcome. Expected targets count too, as they do for the limit."""
    rate: float
    """Targets/s sent recently."""


def channels(
    settings: Globals, groups: Iterable[TaskGroup], states: Mapping[str, CapState] = MappingProxyType({})
) -> list[ChannelUsage]:
    """Return the channels that a live task or a setting names, sorted by name. states: of caps, by pool."""
    capped = {pool.channel for pool in _capped(settings) if pool.channel}
    flows = settings.flow_pauses.keys() | settings.quotas.keys()
    names = capped | settings.paused_channels | {flow_parts(flow)[0] for flow in flows}
    live = _by("channel", groups)
    return [_channel(name, settings, live.get(name, []), states) for name in sorted(names | live.keys())]


def apps(
    settings: Globals, groups: Iterable[TaskGroup], _: Mapping[str, CapState] = MappingProxyType({})
) -> list[AppUsage]:
    """Return the apps that a live task or a setting names, sorted by name; with `*` if it has limits."""
    capped, caps = {pool.app for pool in _capped(settings) if pool.app}, _channel_caps(settings)
    paused = {flow_parts(flow)[1] for flow in settings.flow_pauses}
    names, live = capped | paused | settings.app_weights.keys() | settings.limits.keys(), _by("app", groups)
    return [app_usage(name, settings, live.get(name, []), caps.get(name, {})) for name in sorted(names | live.keys())]


def quotas(settings: Globals) -> list[dict[str, Any]]:
    """Return the quota groups that a setting names, sorted by name: `cap` and `cap_burst` (0 for none) a second of
    `unit`, and the flows (`CHANNEL/APP`) that share it."""
    capped = {pool.quota for name in settings.caps if (pool := Pool.parse(name)) and pool.quota}
    return [
        {
            "name": group,
            "cap": settings.cap(quota_pool(group)).rate,
            "cap_burst": settings.cap(quota_pool(group)).burst,
            "unit": str(settings.unit(quota_pool(group))),
            "apps": sorted(flow for flow, name in settings.quotas.items() if name == group),
        }
        for group in sorted(capped | set(settings.quotas.values()))
    ]


def _by(field: str, groups: Iterable[TaskGroup]) -> dict[str, list[TaskGroup]]:
    """Return the groups by the value of a field."""
    found: dict[str, list[TaskGroup]] = {}
    for group in groups:
        found.setdefault(getattr(group, field), []).append(group)
    return found


def _capped(settings: Globals) -> dict[Pool, Cap]:
    return {pool: cap for name, cap in settings.caps.items() if (pool := Pool.parse(name)) and not pool.quota}


def _channel(name: str, settings: Globals, groups: Sequence[TaskGroup], states: Mapping[str, CapState]) -> ChannelUsage:
    cap, paused = settings.cap(pools_of("", name).channel), name in settings.paused_channels
    return ChannelUsage(
        channel=name,
        paused=paused,
        paused_apps=_paused_apps(name, settings),
        cap=cap.rate,
        cap_burst=cap.burst,
        lowered_caps={pool: _lowered(pool, settings, states[pool]) for pool in _pools_on(name, settings, states)},
        tasks=sum(group.tasks for group in groups),
        queued=sum(group.pending for group in groups),
        rate=sum(group.rate for group in groups),
    )


def _pools_on(channel: str, settings: Globals, states: Mapping[str, CapState]) -> list[str]:
    """Return the capped pools of apps on the channel of which not all may be used now."""
    groups = {quota_pool(group) for flow, group in settings.quotas.items() if flow_parts(flow)[0] == channel}
    return [
        name
        for name, state in sorted(states.items())
        if state.phase is not CapPhase.FULL and (name in groups or _is_on(channel, name))
    ]


def _is_on(channel: str, name: str) -> bool:
    pool = Pool.parse(name)
    return pool is not None and pool.channel == channel


def _lowered(pool: str, settings: Globals, state: CapState) -> dict[str, Any]:
    cap = settings.cap(pool).rate
    return {
        "now": max(1, int(cap * state.part)),
        "cap": cap,
        "unit": str(settings.unit(pool)),
        "phase": str(state.phase),
        "until_ms": state.until_ms,
    }


def _paused_apps(channel: str, settings: Globals) -> dict[str, dict[str, Any]]:
    split = ((*flow_parts(flow), pause) for flow, pause in settings.flow_pauses.items())
    return {
        app: {
            "kind": str(pause.kind),
            "reason": pause.reason,
            "since_ms": pause.since_ms,
            "until_ms": pause.until_ms,
        }
        for name, app, pause in split
        if name == channel
    }


def _channel_caps(settings: Globals) -> dict[str, dict[str, int]]:
    """Return the caps of apps on channels, in targets/s, by app and channel."""
    found: dict[str, dict[str, int]] = {}
    for pool, cap in _capped(settings).items():
        if pool.app and pool.channel:
            found.setdefault(pool.app, {})[pool.channel] = cap.rate
    return found


def app_usage(
    name: str, settings: Globals, groups: Sequence[TaskGroup], caps: dict[str, int] | None = None
) -> AppUsage:
    """Return the settings and work of one app. groups: of its live tasks; caps: its own on channels, if they are
    known."""
    cap, limits = settings.cap(pools_of(name, "").app), settings.limits_of(name)
    return AppUsage(
        app=name,
        weight=settings.app_weight(name),
        cap=cap.rate,
        cap_burst=cap.burst,
        channel_caps=_channel_caps(settings).get(name, {}) if caps is None else caps,
        task_limit=limits.tasks,
        target_limit=limits.targets,
        tasks=sum(group.tasks for group in groups),
        queued=sum(group.pending + group.expected for group in groups),
        rate=sum(group.rate for group in groups),
    )
