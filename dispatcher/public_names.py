"""The public names and the modules that define them. For one release, users may still import a name from its earlier
module, with a warning that names the public module."""

import sys
import warnings
from collections.abc import Mapping
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from opcode import opmap
from types import ModuleType

PUBLIC: dict[str, dict[str, str]] = {
    "fairlane": {
        "AsyncDeadLetterBox": "producers.async_client",
        "AsyncPushClient": "producers.async_client",
        "AsyncTaskHandle": "producers.async_client",
        "Audience": "producers.client",
        "Cancelled": "producers.control.controls",
        "Cap": "dispatcher.model.pools",
        "Changes": "producers.control.task_changes",
        "DeadLetterBox": "producers.letters.dead_letters",
        "DeadTarget": "producers.letters.selection",
        "Edit": "producers.control.controls",
        "Failure": "producers.failures",
        "FailureGroup": "producers.failures",
        "Globals": "dispatcher.model.view",
        "InvalidFilter": "producers.letters.invalid",
        "InvalidTarget": "dispatcher.wire.invalid",
        "LetterFilter": "producers.letters.selection",
        "LetterGroup": "producers.letters.selection",
        "Limits": "dispatcher.model.pools",
        "Plan": "producers.control.steering",
        "PushClient": "producers.client",
        "PushTask": "dispatcher.model.task",
        "Refusal": "producers.submit.validation",
        "Replay": "producers.letters.replay",
        "ServiceControls": "producers.control.service_controls",
        "Settings": "fairlane.settings",
        "BulkResult": "producers.control.steering",
        "SubmitProgress": "producers.submit.report",
        "SubmitResult": "producers.submit.report",
        "Submitted": "producers.submit.many",
        "Target": "dispatcher.model.task",
        "TargetCounts": "dispatcher.model.view",
        "TargetOutcome": "producers.outcomes",
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
_NOW = {(home, name): f"{module}.{name}" for module, homes in PUBLIC.items() for name, home in homes.items()} | {
    ("dispatcher.wire.envelope", "decode_message"): "fairlane.channels.Envelope.decoded_message",
    ("dispatcher.ports", "Channel"): "fairlane.channels.BatchChannel",
    ("producers.handle", "TimedOut"): "fairlane.errors.TimedOut",
}
"""Module and name that users may import from -> public name."""
_HOMES = frozenset(home for home, _ in _NOW)
_NAMES = frozenset(name for _, name in _NOW)
_OURS = frozenset(("dispatcher", "backends", "quotas", "producers", "consumers", "spark_jobs", "fairlane"))
_READS = frozenset(opmap[name] for name in ("IMPORT_FROM", "LOAD_ATTR", "LOAD_METHOD") if name in opmap)
"""Instructions of code that names the attribute it reads. Unpickling, which finds classes by their modules, has none of
them."""


MOVED = {
    "dispatcher.control": "dispatcher.wire.control",
    "dispatcher.envelope": "dispatcher.wire.envelope",
    "dispatcher.errors": "dispatcher.model.errors",
    "dispatcher.outcome": "dispatcher.wire.outcome",
    "dispatcher.service_settings": "dispatcher.model.pools",
    "dispatcher.task": "dispatcher.model.task",
    "dispatcher.tier": "dispatcher.model.tier",
    "dispatcher.view": "dispatcher.model.view",
    "dispatcher.why": "dispatcher.analysis.why",
    "producers.controls": "producers.control.controls",
    "producers.many": "producers.submit.many",
    "producers.service_controls": "producers.control.service_controls",
    "producers.steering": "producers.control.steering",
    "producers.submit_report": "producers.submit.report",
    "producers.targets_file": "producers.files.targets_file",
    "producers.task_changes": "producers.control.task_changes",
    "producers.validation": "producers.submit.validation",
}
"""Modules that users imported from in 0.2 -> their current modules."""


def lazy_name(module: str, homes: Mapping[str, str], name: str) -> object:
    """Import a name of a module from its home, and store it in the module. Raises AttributeError, ImportError."""
    if name not in homes:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    value: object = getattr(import_module(homes[name]), name)
    setattr(sys.modules[module], name, value)
    return value


class Moved(DeprecationWarning):
    """A public name is imported from the module that defines it, which will change in the next release."""


def warn_of_imports_from(package: str) -> None:
    """Make modules of the package that are loaded from now on warn users who import a public name from them."""
    sys.modules[package].__class__ = _Package
    if _MOVED_MODULES not in sys.meta_path:
        sys.meta_path.append(_MOVED_MODULES)


class _Package(ModuleType):
    """A package. Python binds each submodule to it after loading."""

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


class _MovedModules(MetaPathFinder, Loader):
    """Finds the modules of MOVED under their old names."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        return ModuleSpec(fullname, self) if fullname in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        old, home = module.__name__, import_module(MOVED[module.__name__])

        def read(name: str) -> object:
            if name.startswith("__"):
                raise AttributeError(f"module {old!r} has no attribute {name!r}")
            value: object = getattr(home, name)
            public_name = _NOW.get((home.__name__, name), f"{home.__name__}.{name}")
            warnings.warn(f"{old}.{name} moves in the next release: use {public_name}.", Moved, stacklevel=2)
            return value

        module.__dict__["__getattr__"] = read


_MOVED_MODULES = _MovedModules()
