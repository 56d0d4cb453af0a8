"""Why a task, or everything on a channel, is not sent."""

from backends.redis.registry.registry import Registry
from backends.redis.workers import Workers
from dispatcher.analysis.served import Served
from dispatcher.analysis.why import HeldUp, Why, unrecorded_by, why
from dispatcher.model.view import TaskView


def explain(task: TaskView, registry: Registry, workers: Workers) -> Why:
    """Return where a task's time went. Raises Unreachable."""
    now_ms, beats = registry.service.now_ms(), workers.workers()
    served = Served.by(beats)
    held_up = HeldUp(
        registry.tasks.pauses(task.id),
        registry.service.channel_pauses(task.channel),
        registry.service.flow_pauses(task.channel, task.app),
        outages=workers.outages(),
    )
    if served.is_known:
        held_up = held_up._replace(no_worker_runs=workers.absences(), no_channel=workers.absences(task.channel))
    explained = why(task, registry.tasks.why(task.id), held_up, registry.service.globals(), now_ms, served)
    return explained._replace(unrecorded=unrecorded_by(task.id, beats))


def channel_trouble(channel: str, app: str, registry: Registry, workers: Workers) -> str:
    """Return why nothing of an app (empty: of any) is sent on a channel; empty if something may be. Raises
    Unreachable."""
    settings = registry.service.globals()
    if channel in settings.paused_channels:
        return f"channel {channel} is paused (`fairlane channel resume {channel}`)"
    if (pause := settings.flow_pause(channel, app)) is not None:
        resume = f"fairlane channel resume {channel} --app {app}"
        return f"app {app} is paused on channel {channel}: {pause} (`{resume}`)"
    return Served.by(workers.workers()).trouble(channel)
