"""The public names and where each is defined, and for one release a warning for users who import one from there."""

import sys
import warnings
from opcode import opmap
from types import ModuleType

PUBLIC: dict[str, dict[str, str]] = {
    "fairlane": {
        "AsyncPushClient": "producers.async_client",
        "AsyncTaskHandle": "producers.async_client",
        "Audience": "producers.client",
        "Cancelled": "producers.controls",
        "Cap": "dispatcher.service_settings",
        "Changes": "producers.task_changes",
        "Edit": "producers.controls",
        "Failure": "producers.failures",
        "FailureGroup": "producers.failures",
        "Globals": "dispatcher.view",
        "Limits": "dispatcher.service_settings",
        "Plan": "producers.steering",
        "PushClient": "producers.client",
        "PushTask": "dispatcher.task",
        "Refusal": "producers.validation",
        "ServiceControls": "producers.service_controls",
        "Settings": "fairlane.settings",
        "Steered": "producers.steering",
        "SubmitProgress": "producers.submit_report",
        "SubmitResult": "producers.submit_report",
        "Submitted": "producers.many",
        "Target": "dispatcher.task",
        "TargetCounts": "dispatcher.view",
        "TaskFilter": "producers.task_changes",
        "TaskHandle": "producers.handle",
        "TaskView": "dispatcher.view",
        "Tier": "dispatcher.tier",
        "Why": "dispatcher.why",
        "WorkerBeat": "dispatcher.view",
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
        "dispatcher.errors",
    ),
    "fairlane.channels": {
        "ALL_SENT": "dispatcher.outcome",
        "BatchChannel": "dispatcher.ports",
        "BlockingChannel": "consumers.channels.blocking",
        "Envelope": "dispatcher.envelope",
        "Outcome": "dispatcher.outcome",
        "RETRY": "dispatcher.outcome",
        "Report": "dispatcher.outcome",
        "SENT": "dispatcher.outcome",
        "Verdict": "dispatcher.outcome",
    },
}
"""Public module -> name -> the module that defines it."""
_NOW = {(home, name): f"{module}.{name}" for module, homes in PUBLIC.items() for name, home in homes.items()} | {
    ("dispatcher.envelope", "decode_message"): "fairlane.channels.Envelope.decoded_message",
    ("dispatcher.ports", "Channel"): "fairlane.channels.BatchChannel",
    ("producers.handle", "TimedOut"): "fairlane.errors.TimedOut",
}
"""Where users may import a name from -> its public name."""
_HOMES = frozenset(home for home, _ in _NOW)
_NAMES = frozenset(name for _, name in _NOW)
_OURS = frozenset(("dispatcher", "backends", "quotas", "producers", "consumers", "spark_jobs", "fairlane"))
_READS = frozenset(opmap[name] for name in ("IMPORT_FROM", "LOAD_ATTR", "LOAD_METHOD") if name in opmap)
"""Instructions of code that names what it reads. Unpickling, which finds classes by their homes, has none of them."""


class Moved(DeprecationWarning):
    """A public name is imported from where it is defined, which will be another place in the next release."""


def warn_of_imports_from(package: str) -> None:
    """Have modules of the package that are loaded from now on warn users who import a public name from them."""
    sys.modules[package].__class__ = _Package


class _Package(ModuleType):
    """Python binds each submodule to its package when it has been loaded."""

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, ModuleType) and value.__name__ in _HOMES:
            value.__class__ = _Home
        super().__setattr__(name, value)


class _Home(ModuleType):
    """A module that defines public names."""

    def __getattribute__(self, name: str) -> object:
        if name in _NAMES:
            home = super().__getattribute__("__name__")
            reader = sys._getframe(1)
            is_ours = str(reader.f_globals.get("__name__")).partition(".")[0] in _OURS
            if not is_ours and (home, name) in _NOW and reader.f_code.co_code[reader.f_lasti] in _READS:
                text = f"{home}.{name} moves in the next release: use {_NOW[home, name]}."
                warnings.warn(text, Moved, stacklevel=2)
        return super().__getattribute__(name)
