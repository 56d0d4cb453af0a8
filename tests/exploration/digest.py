"""A canonical digest of a graph of Python objects: two objects with the same digest react alike.

Everything counts that is not named in IGNORED (statistics, clocks, virtual times of sharing, which only choose among
lanes that are both served) or RELATIVE_S (times of the monotonic clock: what counts is how far
ahead they are; of what is neither granted nor asked for, nothing), but for spent credit, timers that never come, and
what is kept of a record in case that it cannot be settled.
What is shared counts as shared, closures and partial functions by what they hold.
"""

from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from functools import partial
from hashlib import blake2b
from queue import Queue
from types import BuiltinMethodType, FunctionType, MethodType
from typing import Any

import msgspec

from dispatcher.analysis.send_errors import SendError, SendErrors
from dispatcher.engine.buffers import BufferTotals, Credit
from dispatcher.engine.rhythm import RateWindow
from dispatcher.engine.settings import EngineSettings
from dispatcher.engine.settling import Settling
from dispatcher.engine.shared import Timers
from dispatcher.engine.stats import EngineStats, UnrecordedOutcomes
from dispatcher.scheduling.scheduler import QueueEntry, Scheduler
from dispatcher.scheduling.shared_bound import SharedBound
from dispatcher.wire.envelope import Envelope
from dispatcher.wire.groups import TargetGroup
from dispatcher.wire.topics import Topics
from tests.exploration.envelopes import kind_of, label
from tests.exploration.worker import NEVER_S, Ports
from tests.virtual_clock import VirtualClock

OPAQUE = frozenset(
    (
        VirtualClock,
        EngineSettings,
        EngineStats,
        BufferTotals,
        SendError,
        SendErrors,
        SharedBound,
        UnrecordedOutcomes,
        Scheduler,
        QueueEntry,
        RateWindow,
        Topics,
        Ports,
        Queue,
    )
)
"""Only the type of these counts. (A SharedBound sums up what is held and unsettled, and is never reached here. The
engine's inbox is empty between inputs.)"""
# fmt: off
IGNORED = frozenset((
    "at_ms", "published_ms", "not_before_ms", "received_s", "leased_s", "sent_s", "since_s", "due_s", "due_ms",
    "hold_s", "delay_s", "first_call_ms", "message", "demand_ms", "_number", "_asked_s", "_rhythm",
    "_horizon",
    "_token", "_not_before_s", "_not_ready_s", "_repeat_s", "_loads", "delivered", "stats", "_receipts",
    "_clocks", "_under_way", "now_ms", "claim_ms", "_record", "latency_ms", "_oldest_ms", "results", "source",
))
# fmt: on
RELATIVE_S = frozenset(("use_by_s", "_first_asked_s"))
_PLAIN = frozenset((str, int, bool, bytes, type(None)))


class Walk:
    """One walk over a graph. now_s: of the monotonic clock."""

    def __init__(self, now_s: float) -> None:
        self._now_s = now_s
        self._seen: dict[int, str] = {}
        self._kept: list[Any] = []
        """Keeps what was made on the way, so that no two objects have one id."""

    def of(self, thing: Any) -> Any:
        """A nested list of plain values."""
        kind = type(thing)
        if kind in _PLAIN:
            return thing
        if kind is float:
            return (thing > 0) - (thing < 0)
        if kind is tuple:
            return self._all(thing)
        way = _ways.get(kind) or _way_of(kind)
        if way is Walk._itself:
            return thing
        known = self._seen.get(id(thing))
        if known is not None:
            return known
        self._seen[id(thing)] = f"#{len(self._seen)}"
        self._kept.append(thing)
        return way(self, thing)

    def _all(self, things: Iterable[Any]) -> list[Any]:
        of = self.of
        return [thing if type(thing) in _PLAIN else of(thing) for thing in things]

    def _itself(self, thing: Any) -> Any:
        return thing

    def _type(self, thing: Any) -> str:
        return type(thing).__name__

    def _pairs(self, thing: dict[Any, Any]) -> list[Any]:
        return [self._all(pair) for pair in thing.items() if not _is_spent(pair[1])]

    def _members(self, thing: Iterable[Any]) -> list[str]:
        return sorted(map(repr, thing))

    def _group(self, thing: TargetGroup) -> Any:
        return (thing.positions, thing.tries, label(thing.due_ms), thing.is_lost)

    def _method(self, thing: MethodType) -> Any:
        return (thing.__name__, self.of(thing.__self__))

    def _partial(self, thing: "partial[Any]") -> Any:
        return self._all((thing.func, thing.args, thing.keywords))

    def _function(self, thing: FunctionType) -> Any:
        return (thing.__qualname__, self._all(cell.cell_contents for cell in thing.__closure__ or ()))

    def _builtin(self, thing: BuiltinMethodType) -> Any:
        return (thing.__name__, type(thing.__self__).__name__)

    def _fields(self, thing: Any) -> Any:
        counted, relative = _names(thing)
        found = [type(thing).__name__, *self._all([getattr(thing, name, None) for name in counted])]
        granted_or_asked = relative and getattr(thing, "claim", True) and getattr(thing, "_request", True)
        if granted_or_asked:
            found += [max(-3.0, round(getattr(thing, name) - self._now_s, 3)) for name in relative]
        return found

    def _settling(self, thing: Settling) -> Any:
        return (self._fields(thing), self._all(thing._receipts.values()))

    def _timers(self, timers: Timers) -> Any:
        """A timer set NEVER_S ahead does not fire, however long workers stall."""
        heap = sorted(timers._heap, key=lambda entry: entry[:2])
        soon = [entry for entry in heap if entry[0] - self._now_s < NEVER_S / 2]
        return [(max(-1.0, round(when_s - self._now_s, 3)), self.of(call)) for when_s, _, call in soon]


def _is_spent(thing: Any) -> bool:
    """Credit of which nothing is left is as none."""
    return type(thing) is Credit and not thing.queue


_Way = Callable[[Walk, Any], Any]
_ways: dict[type, _Way] = {
    list: Walk._all, deque: Walk._all, dict: Walk._pairs, set: Walk._members, frozenset: Walk._members,
    bytearray: lambda _, thing: bytes(thing), Envelope: lambda _, thing: kind_of(thing), TargetGroup: Walk._group,
    Timers: Walk._timers, MethodType: Walk._method,
    partial: Walk._partial, FunctionType: Walk._function, BuiltinMethodType: Walk._builtin,
    Settling: Walk._settling, **dict.fromkeys(OPAQUE, Walk._type),
}  # fmt: skip


def _way_of(kind: type) -> _Way:
    """How a thing of this kind is written down."""
    return _ways.setdefault(kind, Walk._itself if issubclass(kind, Enum) else Walk._fields)


_names_by_type: dict[type, tuple[list[str], list[str]]] = {}


def _names(thing: Any) -> tuple[list[str], list[str]]:
    """The fields that count as they are, and the times."""
    kind = type(thing)
    if kind not in _names_by_type:
        slots = [name for base in kind.__mro__ for name in getattr(base, "__slots__", ())]
        struct = isinstance(thing, msgspec.Struct)
        names = list(thing.__struct_fields__) if struct else [*slots, *getattr(thing, "__dict__", {})]
        names = [name for name in dict.fromkeys(names) if name != "__dict__"]
        counted = [name for name in names if name not in IGNORED | RELATIVE_S]
        _names_by_type[kind] = (counted, [name for name in names if name in RELATIVE_S])
    return _names_by_type[kind]


def digest(thing: Any, now_s: float = 0.0) -> bytes:
    """16 bytes."""
    return blake2b(repr(Walk(now_s).of(thing)).encode(), digest_size=16).digest()
