"""A canonical digest of a graph of Python objects: two objects with the same digest react alike.

Everything counts that is not named in IGNORED (statistics, clocks, virtual times of sharing, which only choose among
lanes that are both served) or RELATIVE_S (times of the monotonic clock: what counts is how far
ahead they are; of what is neither granted nor asked for, nothing). What is
shared counts as shared, closures and partial functions by what they hold.
"""

from collections import deque
from enum import Enum
from functools import partial
from hashlib import blake2b
from types import BuiltinMethodType, FunctionType, MethodType
from typing import Any

import msgspec

from dispatcher.buffers import RateWindow
from dispatcher.clock import VirtualClock
from dispatcher.engine_grace import Grace, GrantMeter
from dispatcher.engine_settings import EngineSettings
from dispatcher.engine_settling import Settling
from dispatcher.engine_stats import EngineStats
from dispatcher.envelope import Envelope
from dispatcher.scheduler import Flow, Scheduler
from dispatcher.timers import Timers
from dispatcher.topics import Topics

OPAQUE = frozenset((VirtualClock, EngineSettings, EngineStats, Scheduler, Flow, RateWindow, Topics))
"""Of these only the type counts."""
# fmt: off
IGNORED = frozenset((
    "at_ms", "published_ms", "not_before_ms", "received_s", "leased_s", "sent_s", "since_s", "due_s", "due_ms",
    "hold_s", "message", "demand_ms", "_number", "_asked_s", "_rhythm", "_floor", "_given_back_seen",
    "_token", "_not_before_s", "_not_ready_s", "_repeat_s", "_loads", "received", "stats", "_receipts",
    "pools", "demand", "debts", "first_outcome_ms", "end_ms", "lease_end_ms", "due", "cursors", "causes",
    "counted_until_ms", "_record", "latency_ms", "_oldest_ms",
))
# fmt: on
RELATIVE_S = frozenset(("use_by_s", "_first_asked_s"))
_PLAIN = frozenset((str, int, bool, bytes, type(None)))


class Walk:
    """One walk over a graph. now_s: of the monotonic clock."""

    def __init__(self, now_s: float, renamed: dict[type, str] | None = None) -> None:
        self._now_s = now_s
        self._seen: dict[int, str] = {}
        self._renamed = renamed or {}
        self._kept: list[Any] = []
        """Keeps what was made on the way, so that no two objects have one id."""

    def of(self, thing: Any) -> Any:
        """A nested tuple of plain values."""
        kind = type(thing)
        if kind in _PLAIN or isinstance(thing, Enum):
            return thing
        if kind is float:
            return (thing > 0) - (thing < 0)
        if kind is tuple:
            return [self.of(one) for one in thing]
        if kind in self._renamed:
            return self._renamed[kind]
        known = self._seen.get(id(thing))
        if known is not None:
            return known
        self._seen[id(thing)] = f"#{len(self._seen)}"
        self._kept.append(thing)
        return self._whole(thing, kind)

    def _whole(self, thing: Any, kind: type) -> Any:
        if kind is list or kind is deque:
            return [self.of(one) for one in thing]
        if kind is dict:
            return [(self.of(key), self.of(value)) for key, value in thing.items()]
        if kind in OPAQUE:
            return kind.__name__
        if kind is Envelope:
            return (thing.writer, thing.sequence, thing.attempt, thing.positions)
        if kind is set or kind is frozenset:
            return sorted(map(repr, thing))
        return self._timers(thing) if kind is Timers else self._of_grace(thing)

    def _of_grace(self, thing: Any) -> Any:
        """Without controls there is none. What it goes by counts while it lasts."""
        if isinstance(thing, GrantMeter):
            return [(max(-9.0, round(at_s - self._now_s, 2)), sorted(counts.items())) for at_s, counts in thing._steps]
        if isinstance(thing, bytearray):
            return bytes(thing)
        if not isinstance(thing, Grace) or thing.active:
            return self._code(thing)
        return ("grace", thing.lost, self.of(thing.meter), self.of(thing._controls)) if thing.possible else "no grace"

    def _code(self, thing: Any) -> Any:
        if isinstance(thing, MethodType):
            return (thing.__name__, self.of(thing.__self__))
        if isinstance(thing, partial):
            return (self.of(thing.func), self.of(thing.args), self.of(thing.keywords))
        if isinstance(thing, FunctionType):
            cells = thing.__closure__ or ()
            return (thing.__qualname__, tuple(self.of(cell.cell_contents) for cell in cells))
        if isinstance(thing, BuiltinMethodType):
            return (thing.__name__, type(thing.__self__).__name__)
        return (type(thing).__name__, self._fields(thing))

    def _fields(self, thing: Any) -> Any:
        counted, relative = _names(thing)
        found: list[Any] = [(name, self.of(getattr(thing, name, None))) for name in counted]
        granted_or_asked = getattr(thing, "claim", True) and getattr(thing, "_request", True)
        if relative and granted_or_asked:
            found += [(name, max(-3.0, round(getattr(thing, name) - self._now_s, 3))) for name in relative]
        if isinstance(thing, Settling):
            found.append(("_receipts", [self.of(receipt) for receipt in thing._receipts.values()]))
        return found

    def _timers(self, timers: Timers) -> Any:
        heap = sorted(timers._heap, key=lambda entry: entry[:2])
        return [(max(-1.0, round(when_s - self._now_s, 3)), self.of(call)) for when_s, _, call in heap]


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


def digest(thing: Any, now_s: float = 0.0, renamed: dict[type, str] | None = None) -> bytes:
    """16 bytes."""
    return blake2b(repr(Walk(now_s, renamed).of(thing)).encode(), digest_size=16).digest()
