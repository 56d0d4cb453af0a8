"""Which tasks make no progress though nothing explains why."""

from backends.redis.registry.task_rows import IdleTask
from dispatcher.analysis.served import Served
from dispatcher.model.view import ENDED_STATES, Globals

STUCK_MS = 900_000
"""A task without progress for longer than this is stuck. A task waits at most 600 s for its next attempt."""


def is_stuck(one: IdleTask, served: Served, settings: Globals, after_ms: int = STUCK_MS) -> bool:
    """Return whether nothing has happened to a task for `after_ms`, though workers may send it."""
    task = one.task
    if not served.workers or one.idle_ms < after_ms or task.targets.pending <= 0:
        return False
    may_be_sent = not settings.stops(task.channel, task.app) and not served.lacks(task.channel)
    return task.state in ENDED_STATES or (task.state == "running" and task.sealed and may_be_sent)
