"""Fairlane: priority-queue push dispatch over Apache Pulsar and Redis.

The public face: `from fairlane import PushClient, PushTask, Tier`. Names are imported when first used, so that
`fairlane --help` never pays for the Pulsar client.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dispatcher.task import PushTask as PushTask
    from dispatcher.task import Target as Target
    from dispatcher.tier import Tier as Tier
    from fairlane.settings import Settings as Settings
    from producers.client import PushClient as PushClient
    from producers.handle import TaskHandle as TaskHandle
    from producers.task_changes import Changes as Changes
    from producers.task_changes import TaskFilter as TaskFilter

__version__ = "0.3.0"

_HOMES = {
    "Changes": "producers.task_changes",
    "PushClient": "producers.client",
    "PushTask": "dispatcher.task",
    "Settings": "fairlane.settings",
    "Target": "dispatcher.task",
    "TaskFilter": "producers.task_changes",
    "TaskHandle": "producers.handle",
    "Tier": "dispatcher.tier",
}

__all__ = [
    "Changes",
    "PushClient",
    "PushTask",
    "Settings",
    "Target",
    "TaskFilter",
    "TaskHandle",
    "Tier",
    "__version__",
]


def __getattr__(name: str) -> object:
    """Import a public name from its home on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'fairlane' has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
