"""Fairlane: priority-queue push dispatch over Apache Pulsar and Redis.

The public face: `from fairlane import PushClient, PushTask, Settings`; errors are in `fairlane.errors`, what the author
of a channel needs is in `fairlane.channels`. Names are imported when first used, so that `fairlane --help` never pays
for the Pulsar client.
"""

from typing import TYPE_CHECKING

from fairlane.lazy import public_name

if TYPE_CHECKING:
    from dispatcher.service_settings import Cap, Limits
    from dispatcher.task import PushTask, Target
    from dispatcher.tier import Tier
    from dispatcher.view import Globals, TargetCounts, TaskView, WorkerBeat
    from dispatcher.why import Why
    from fairlane.settings import Settings
    from producers.async_client import AsyncPushClient, AsyncTaskHandle
    from producers.client import Audience, PushClient
    from producers.controls import Cancelled, Edit
    from producers.failures import Failure, FailureGroup
    from producers.handle import TaskHandle
    from producers.many import Submitted
    from producers.service_controls import ServiceControls
    from producers.steering import Plan, Steered
    from producers.submit_report import SubmitProgress, SubmitResult
    from producers.task_changes import Changes, TaskFilter
    from producers.validation import Refusal

__version__ = "0.3.0"

__all__ = [
    "AsyncPushClient",
    "AsyncTaskHandle",
    "Audience",
    "Cancelled",
    "Cap",
    "Changes",
    "Edit",
    "Failure",
    "FailureGroup",
    "Globals",
    "Limits",
    "Plan",
    "PushClient",
    "PushTask",
    "Refusal",
    "ServiceControls",
    "Settings",
    "Steered",
    "SubmitProgress",
    "SubmitResult",
    "Submitted",
    "Target",
    "TargetCounts",
    "TaskFilter",
    "TaskHandle",
    "TaskView",
    "Tier",
    "Why",
    "WorkerBeat",
    "__version__",
]


if not TYPE_CHECKING:  # to type checkers, a name that is not above does not exist

    def __getattr__(name: str) -> object:
        """Import a public name from where it is defined."""
        return public_name(__name__, name)


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
