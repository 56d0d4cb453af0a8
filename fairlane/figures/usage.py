"""Channels and apps with their settings and their work in progress."""

from collections.abc import Sequence
from dataclasses import dataclass

from dispatcher.model.service_settings import app_channel_pool, app_pool, channel_pool
from dispatcher.model.view import Globals, TaskView


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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
    named = {pool.removeprefix("channel/") for pool in settings.caps if pool.startswith("channel/")}
    names = named | settings.paused_channels | {task.channel for task in tasks}
    return [_channel(name, settings, [task for task in tasks if task.channel == name]) for name in sorted(names)]


def apps(settings: Globals, tasks: Sequence[TaskView]) -> list[AppUsage]:
    """Return the apps that a live task or a setting names, sorted by name; with `*` if it has limits."""
    named = {pool.split("/")[1] for pool in settings.caps if pool.startswith("app")}
    names = named | settings.app_weights.keys() | settings.limits.keys() | {task.app for task in tasks}
    return [_app(name, settings, [task for task in tasks if task.app == name]) for name in sorted(names)]


def _channel(name: str, settings: Globals, tasks: Sequence[TaskView]) -> ChannelUsage:
    cap, paused = settings.cap(channel_pool(name)), name in settings.paused_channels
    queued = sum(task.targets.pending for task in tasks)
    return ChannelUsage(name, paused, cap.rate, cap.burst, len(tasks), queued, sum(task.rate for task in tasks))


def _app(name: str, settings: Globals, tasks: Sequence[TaskView]) -> AppUsage:
    cap, limits, prefix = settings.cap(app_pool(name)), settings.limits_of(name), app_channel_pool(name, "")
    return AppUsage(
        name,
        settings.app_weight(name),
        cap.rate,
        cap.burst,
        {pool.removeprefix(prefix): cap.rate for pool, cap in settings.caps.items() if pool.startswith(prefix)},
        limits.tasks,
        limits.targets,
        len(tasks),
        sum(task.targets.pending + _unpublished(task) for task in tasks),
        sum(task.rate for task in tasks),
    )


def _unpublished(task: TaskView) -> int:
    return 0 if task.sealed or task.closed else max(0, task.expected_targets - task.targets.total)
