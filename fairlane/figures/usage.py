"""Channels and apps with their settings and what they have under way."""

from collections.abc import Sequence
from dataclasses import dataclass

from dispatcher.model.service_settings import app_channel_pool, app_pool, channel_pool
from dispatcher.model.view import Globals, TaskView


@dataclass(frozen=True)
class ChannelUsage:
    """cap, cap_burst: targets/s and targets, 0 for none. tasks: live ones; queued: their targets without an outcome, as
    far as they are published; rate: targets/s recently."""

    channel: str
    paused: bool
    cap: int
    cap_burst: int
    tasks: int
    queued: int
    rate: float


@dataclass(frozen=True)
class AppUsage:
    """As of a channel. weight: where apps share. channel_caps: targets/s by channel. task_limit, target_limit: most
    live tasks and queued targets, 0 for any number; they come from `*` where the app has none of its own. queued: what
    is expected counts too, as it does for the limit."""

    app: str
    weight: float
    cap: int
    cap_burst: int
    channel_caps: dict[str, int]
    task_limit: int
    target_limit: int
    tasks: int
    queued: int
    rate: float


def channels(settings: Globals, tasks: Sequence[TaskView]) -> list[ChannelUsage]:
    """Those that a live task or a setting names, by name."""
    named = {pool.removeprefix("channel/") for pool in settings.caps if pool.startswith("channel/")}
    names = named | settings.paused_channels | {task.channel for task in tasks}
    return [_channel(name, settings, [task for task in tasks if task.channel == name]) for name in sorted(names)]


def apps(settings: Globals, tasks: Sequence[TaskView]) -> list[AppUsage]:
    """Those that a live task or a setting names, by name; `*` if it has limits."""
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
