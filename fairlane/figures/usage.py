"""Channels and apps with their settings and their work in progress."""

from collections.abc import Sequence
from dataclasses import dataclass

from dispatcher.model.pools import Pool, pools_of
from dispatcher.model.service_settings import Cap
from dispatcher.model.view import Globals, TaskView


@dataclass(frozen=True, kw_only=True)
class ChannelUsage:
    """Settings and usage of one channel."""

    channel: str
    paused: bool
    cap: int
    """Targets/s; 0 for none."""
    cap_burst: int
    """Targets; 0 for none."""
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


def channels(settings: Globals, tasks: Sequence[TaskView]) -> list[ChannelUsage]:
    """Return the channels that a live task or a setting names, sorted by name."""
    capped = {pool.channel for pool in _capped(settings) if not pool.app}
    names = capped | settings.paused_channels | {task.channel for task in tasks}
    return [_channel(name, settings, [task for task in tasks if task.channel == name]) for name in sorted(names)]


def apps(settings: Globals, tasks: Sequence[TaskView]) -> list[AppUsage]:
    """Return the apps that a live task or a setting names, sorted by name; with `*` if it has limits."""
    capped = {pool.app for pool in _capped(settings) if pool.app}
    names = capped | settings.app_weights.keys() | settings.limits.keys() | {task.app for task in tasks}
    return [_app(name, settings, [task for task in tasks if task.app == name]) for name in sorted(names)]


def _capped(settings: Globals) -> dict[Pool, Cap]:
    return {pool: cap for name, cap in settings.caps.items() if (pool := Pool.parse(name))}


def _channel(name: str, settings: Globals, tasks: Sequence[TaskView]) -> ChannelUsage:
    cap, paused = settings.cap(pools_of("", name).channel), name in settings.paused_channels
    queued = sum(task.targets.pending for task in tasks)
    return ChannelUsage(
        channel=name,
        paused=paused,
        cap=cap.rate,
        cap_burst=cap.burst,
        tasks=len(tasks),
        queued=queued,
        rate=sum(task.rate for task in tasks),
    )


def _app(name: str, settings: Globals, tasks: Sequence[TaskView]) -> AppUsage:
    cap, limits = settings.cap(pools_of(name, "").app), settings.limits_of(name)
    return AppUsage(
        app=name,
        weight=settings.app_weight(name),
        cap=cap.rate,
        cap_burst=cap.burst,
        channel_caps={
            pool.channel: cap.rate for pool, cap in _capped(settings).items() if pool.app == name and pool.channel
        },
        task_limit=limits.tasks,
        target_limit=limits.targets,
        tasks=len(tasks),
        queued=sum(task.targets.pending + _unpublished(task) for task in tasks),
        rate=sum(task.rate for task in tasks),
    )


def _unpublished(task: TaskView) -> int:
    return 0 if task.sealed or task.closed else max(0, task.expected_targets - task.targets.total)
