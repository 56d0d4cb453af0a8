"""Fairlane: priority-queue push dispatch over Apache Pulsar and Redis.

The public interface: `from fairlane import PushClient, PushTask, Settings`. Errors are in `fairlane.errors`; what the
author of a channel needs is in `fairlane.channels`. Names are imported when first used, so that `fairlane --help` does
not load the Pulsar client.

Commands, the worker process, the local stack and all output on a terminal belong here; rules of sending do not.
"""

from typing import TYPE_CHECKING

from fairlane.public_names import public_module

if TYPE_CHECKING:
    from dispatcher.analysis.why import Why
    from dispatcher.model.pools import Cap, Limits
    from dispatcher.model.task import PushTask, Target
    from dispatcher.model.tier import Tier
    from dispatcher.model.view import Globals, TargetCounts, TaskView, WorkerBeat
    from fairlane.settings import Settings
    from producers.client import AsyncPushClient, Audience, PushClient
    from producers.control.controls import Cancelled, Edit
    from producers.control.service_controls import ServiceControls
    from producers.control.steering import BulkResult, Plan
    from producers.control.task_changes import Changes, TaskFilter
    from producers.handle import AsyncTaskHandle, TaskHandle
    from producers.outcomes.dead_letters import AsyncDeadLetterBox, DeadLetterBox
    from producers.outcomes.record import ReasonGroup, TargetFilter, TargetRecord
    from producers.outcomes.replay import Replay
    from producers.submit.many import Submitted
    from producers.submit.report import SubmitProgress, SubmitResult
    from producers.submit.validation import Refusal

__version__ = "0.3.0"

__all__ = [
    "AsyncDeadLetterBox",
    "AsyncPushClient",
    "AsyncTaskHandle",
    "Audience",
    "BulkResult",
    "Cancelled",
    "Cap",
    "Changes",
    "DeadLetterBox",
    "Edit",
    "Globals",
    "Limits",
    "Plan",
    "PushClient",
    "PushTask",
    "ReasonGroup",
    "Refusal",
    "Replay",
    "ServiceControls",
    "Settings",
    "SubmitProgress",
    "SubmitResult",
    "Submitted",
    "Target",
    "TargetCounts",
    "TargetFilter",
    "TargetRecord",
    "TaskFilter",
    "TaskHandle",
    "TaskView",
    "Tier",
    "Why",
    "WorkerBeat",
    "__version__",
]


_NAMES = {
    "dispatcher.analysis.why": ("Why",),
    "dispatcher.model.pools": ("Cap", "Limits"),
    "dispatcher.model.task": ("PushTask", "Target"),
    "dispatcher.model.tier": ("Tier",),
    "dispatcher.model.view": ("Globals", "TargetCounts", "TaskView", "WorkerBeat"),
    "fairlane.settings": ("Settings",),
    "producers.client": ("AsyncPushClient", "Audience", "PushClient"),
    "producers.control.controls": ("Cancelled", "Edit"),
    "producers.control.service_controls": ("ServiceControls",),
    "producers.control.steering": ("BulkResult", "Plan"),
    "producers.control.task_changes": ("Changes", "TaskFilter"),
    "producers.handle": ("AsyncTaskHandle", "TaskHandle"),
    "producers.outcomes.dead_letters": ("AsyncDeadLetterBox", "DeadLetterBox"),
    "producers.outcomes.record": ("ReasonGroup", "TargetFilter", "TargetRecord"),
    "producers.outcomes.replay": ("Replay",),
    "producers.submit.many": ("Submitted",),
    "producers.submit.report": ("SubmitProgress", "SubmitResult"),
    "producers.submit.validation": ("Refusal",),
}
"""By the module that defines them."""

if not TYPE_CHECKING:  # type checkers report a name that is not listed above
    __getattr__, __dir__ = public_module(
        __name__, __all__, {name: home for home, names in _NAMES.items() for name in names}
    )
