"""Find and construct the channels named in the settings."""

import importlib
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from consumers.delivery.fleet_gate import FleetGate
from consumers.delivery.flow_figures import FlowTable
from dispatcher.channels.guards.trouble import MessageRefused
from dispatcher.clock import Clock
from dispatcher.model.errors import FairlaneError, InvalidInput
from dispatcher.ports import AnyChannel

BUILT_IN = {
    "null": "consumers.delivery.channels.log:NullChannel",
    "log": "consumers.delivery.channels.log:LogChannel",
    "http": "consumers.delivery.channels.http:HttpChannel",
    "fcm": "consumers.delivery.push.channel:fcm_channel",
    "apns": "consumers.delivery.push.channel:apns_channel",
}
WITH_CONTEXT = frozenset(("fcm", "apns"))
"""The built-in channels that share the worker's clock and gate."""
_METHODS = ("open", "deliver", "close")
_BY_TARGET = ("open", "deliver_targets", "close")
_HOW = {
    "open": "Write `async def open(self)`.",
    "deliver": "Write `async def deliver(self, envelopes, tier)`. If its client blocks, derive the class from "
    "fairlane.channels.BlockingChannel and write `def deliver_blocking(self, envelopes, tier)`: it runs in threads.",
    "deliver_targets": "Write `async def deliver_targets(self, call)`.",
    "close": "Write `async def close(self)`.",
}
_NUMBERS = ("concurrency", "batch_limit")


@dataclass(frozen=True)
class ChannelContext:
    """Given to channels that have a method `use`, before they are opened."""

    clock: Clock
    gate: FleetGate
    message_refused: MessageRefused = lambda _: None
    """Called for a task whose message the provider refuses for everybody."""
    figures: FlowTable = field(default_factory=FlowTable)
    """The figures of all flows."""


def load_channels(
    classes: Mapping[str, str],
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    context: ChannelContext | None = None,
) -> dict[str, AnyChannel]:
    """Return the channels by name. Raises InvalidInput, which names the channel.

    classes: channel name -> a name in BUILT_IN or "module:Class". settings: channel name -> the settings that its class
    is constructed with (`name` is added). context: for the channels that have a method `use`.
    """
    settings_of = settings or {}
    channels = {name: _load(name, path, settings_of.get(name, {})) for name, path in classes.items()}
    for name, channel in channels.items():
        if context is not None and classes[name] in WITH_CONTEXT:
            cast("Any", channel).use(context)
    return channels


def _load(name: str, path: str, settings: Mapping[str, Any]) -> AnyChannel:
    build = _class(name, BUILT_IN.get(path, path))
    try:
        channel = build({**settings, "name": name})
    except FairlaneError:
        raise
    except Exception as error:
        cause = f"The channel {name} cannot be created: {path} raised {type(error).__name__}: {error}."
        raise InvalidInput(cause, "Check its settings and its class.") from error
    _check(name, path, channel)
    return cast("AnyChannel", channel)


def _class(name: str, path: str) -> Callable[[Mapping[str, Any]], object]:
    module_name, colon, attribute = path.partition(":")
    if not colon or not module_name or not attribute:
        cause = f"The channel {name} is neither {', '.join(BUILT_IN)} nor a module:Class, but {path!r}."
        raise InvalidInput(cause, "Name its class as in mypackage.push:MyChannel.")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        cause = f"The module {module_name} of the channel {name} cannot be imported: {type(error).__name__}: {error}."
        raise InvalidInput(cause, "Install it, or put its directory on PYTHONPATH.") from error
    factory = getattr(module, attribute, None)
    if not callable(factory):
        problem = "has no" if factory is None else "has something that is not a class under the name"
        cause = f"The module {module_name} of the channel {name} {problem} {attribute}."
        raise InvalidInput(cause, "Check the spelling.")
    return cast("Callable[[Mapping[str, Any]], object]", factory)


def _check(name: str, path: str, channel: object) -> None:
    """Check that the object implements dispatcher.ports.BatchChannel, or TargetChannel."""
    methods = _BY_TARGET if hasattr(channel, "deliver_targets") else _METHODS
    missing = [method for method in methods if not callable(getattr(channel, method, None))]
    if not _is_seconds(getattr(channel, "timeout_s", None)):
        missing.append("timeout_s (a number above 0)")
    for number in _NUMBERS:
        value = getattr(channel, number, None)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            missing.append(f"{number} (a whole number above 0)")
    per_request = getattr(channel, "targets_per_request", 1)
    if isinstance(per_request, bool) or not isinstance(per_request, int) or per_request < 0:
        missing.append("targets_per_request (a whole number; 0: all of an envelope)")
    if not isinstance(getattr(channel, "name", None), str):
        missing.append("name (a text)")
    if missing:
        raise InvalidInput(
            f"The channel {name} ({path}) lacks {', '.join(missing)}.", "See fairlane.channels.BatchChannel."
        )
    for method in methods:
        if _is_sync(getattr(channel, method)):
            raise InvalidInput(f"{method}() of the channel {name} ({path}) is not async.", _HOW[method])


def _is_sync(method: object) -> bool:
    """Return whether it is a plain Python function. For others, such as compiled ones, only a call can tell."""
    function = inspect.unwrap(cast("Callable[..., object]", method), stop=inspect.iscoroutinefunction)
    return inspect.isroutine(function) and hasattr(function, "__code__") and not inspect.iscoroutinefunction(function)


def _is_seconds(value: object) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and 0 < cast("float", value) < math.inf
