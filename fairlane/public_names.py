"""The public names, imported when they are first used. Until then only the standard library is loaded."""

import sys
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

PUBLIC: dict[str, dict[str, str]] = {
    "fairlane": {
        "AsyncDeadLetterBox": "producers.outcomes.dead_letters",
        "AsyncPushClient": "producers.client",
        "AsyncTaskHandle": "producers.handle",
        "Audience": "producers.client",
        "Cancelled": "producers.control.controls",
        "Cap": "dispatcher.model.pools",
        "Changes": "producers.control.task_changes",
        "DeadLetterBox": "producers.outcomes.dead_letters",
        "Edit": "producers.control.controls",
        "Globals": "dispatcher.model.view",
        "Limits": "dispatcher.model.pools",
        "Plan": "producers.control.steering",
        "PushClient": "producers.client",
        "PushTask": "dispatcher.model.task",
        "ReasonGroup": "producers.outcomes.record",
        "Refusal": "producers.submit.validation",
        "Replay": "producers.outcomes.replay",
        "ServiceControls": "producers.control.service_controls",
        "Settings": "fairlane.settings",
        "BulkResult": "producers.control.steering",
        "SubmitProgress": "producers.submit.report",
        "SubmitResult": "producers.submit.report",
        "Submitted": "producers.submit.many",
        "Target": "dispatcher.model.task",
        "TargetCounts": "dispatcher.model.view",
        "TargetFilter": "producers.outcomes.record",
        "TargetRecord": "producers.outcomes.record",
        "TaskFilter": "producers.control.task_changes",
        "TaskHandle": "producers.handle",
        "TaskView": "dispatcher.model.view",
        "Tier": "dispatcher.model.tier",
        "Why": "dispatcher.analysis.why",
        "WorkerBeat": "dispatcher.model.view",
    },
    "fairlane.errors": dict.fromkeys(
        (
            "AudienceMismatch",
            "BeingSubmitted",
            "FairlaneError",
            "InvalidInput",
            "LimitReached",
            "NotConfigured",
            "NotFound",
            "NotReady",
            "Refused",
            "TaskEnded",
            "TimedOut",
            "Unreachable",
        ),
        "dispatcher.model.errors",
    ),
    "fairlane.channels": {
        "ALL_SENT": "dispatcher.wire.outcome",
        "BatchChannel": "dispatcher.ports",
        "BlockingChannel": "consumers.delivery.channels.blocking",
        "Envelope": "dispatcher.wire.envelope",
        "Outcome": "dispatcher.wire.outcome",
        "RETRY": "dispatcher.wire.outcome",
        "Report": "dispatcher.wire.outcome",
        "SENT": "dispatcher.wire.outcome",
        "UNKNOWN": "dispatcher.wire.outcome",
        "UNSENT": "dispatcher.wire.outcome",
        "Verdict": "dispatcher.wire.outcome",
    },
}
"""Public module -> name -> the module that defines it."""
PACKAGES = ("dispatcher", "backends", "quotas", "producers", "consumers", "spark_jobs", "estate", "lab")
"""Fairlane's packages apart from `fairlane`."""
ROOT = Path(__file__).resolve().parents[1]
"""The directory that contains them."""


class Shadowed(ImportError):
    """Another module has the name of one of Fairlane's packages and precedes it on the path."""


def public_module(module: str, names: Iterable[str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a module whose public names are imported when they are first used."""
    return partial(_public_name, module), lambda: sorted(names)


def _public_name(module: str, name: str) -> object:
    """Return a public name of a module, and store it there. Raises AttributeError, or Shadowed."""
    homes = PUBLIC[module]
    if name not in homes:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    try:
        value: object = getattr(import_module(homes[name]), name)
    except ImportError as error:
        hidden = hidden_package()
        if hidden is None:
            raise
        raise hidden from error
    setattr(sys.modules[module], name, value)
    return value


def hidden_package() -> Shadowed | None:
    """Return the error to raise if another module hides one of Fairlane's packages, else None."""
    for package in PACKAGES:
        file = _file_of(package)
        if file is not None and file.parent != ROOT / package:
            shown = file.parent if file.name == "__init__.py" else file
            return Shadowed(
                f"{shown} hides the package `{package}` of Fairlane, which is in {ROOT}. "
                "Rename it, or put its directory behind Fairlane's on the path.",
                name=package,
                path=str(file),
            )
    return None


def _file_of(package: str) -> Path | None:
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        return None
    return None if spec is None or spec.origin is None else Path(spec.origin).resolve()
