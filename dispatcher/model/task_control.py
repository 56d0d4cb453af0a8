"""The controls of a task: what may change while it runs. A Control checks, encodes, parses, shows and applies itself.

A record of the control topic has it as a name and a text. `backends/redis/lua/registry/apply_control.lua` applies it to
the view in Redis.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, TypeVar

import msgspec

from dispatcher.access.principal import NOBODY, Caller
from dispatcher.model.errors import DECODING_ERRORS, InvalidInput, Malformed
from dispatcher.model.lifecycle import TASK
from dispatcher.model.pools import Cap
from dispatcher.model.task import MAX_MESSAGE_BYTES
from dispatcher.model.tier import MILLI, TIERS, Tier, in_milli
from dispatcher.wire.checks import field_checks as check
from dispatcher.wire.checks.nesting import complaint_of
from dispatcher.wire.control import FORMAT, ControlChange
from dispatcher.wire.envelope import encode_message
from dispatcher.wire.outcome import sound_text

MAX_EDITS = 10**9
S = TypeVar("S", bound=msgspec.Struct)


class Override(NamedTuple):
    """An edited message."""

    number: int
    """Grows by one per edit. Of two edits made at once, the later one in the topic applies and takes the next number.
    """
    message: dict[str, Any]


class Control(msgspec.Struct, frozen=True):
    """A new value of one control of a task."""

    name: str
    """As in CONTROLS."""
    value: Any
    """An int, Tier, Cap, bool, str or Override."""

    @classmethod
    def of(cls, name: str, given: object) -> Self:
        """Return a control with a value given by a user. Raises InvalidInput."""
        return cls(name, CONTROLS[name].checked(given))

    @classmethod
    def parse(cls, record: ControlChange) -> Self:
        """Parse a record. Raises Malformed."""
        kind = CONTROLS.get(record.field)
        if kind is None:
            raise Malformed(f"this version knows no control {repr(record.field)[:80]}")
        return cls(record.field, kind.parsed(record))

    @property
    def text(self) -> str:
        """The value on the wire."""
        return CONTROLS[self.name].text(self.value)

    def record(self, task: str, at_ms: int, caller: Caller = NOBODY) -> ControlChange:
        """Return the record for the control topic."""
        return ControlChange(FORMAT, task, self.name, self.text, at_ms, caller.by, caller.request)

    @property
    def end(self) -> str:
        """The state in which it ends a task; empty if it does not end it."""
        return CONTROLS[self.name].end

    @property
    def needs_own_lane(self) -> bool:
        """Whether a task must leave its shared lane, which is first in, first out."""
        return not self.end and (self.name, self.value) != ("paused", False)

    def applied(self, task: S) -> S:
        """Return a TaskView, a Submission or a part of one after the change."""
        new = CONTROLS[self.name].new(self.value, task).items()
        return msgspec.structs.replace(task, **{name: value for name, value in new if name in task.__struct_fields__})

    def is_set(self, task: msgspec.Struct) -> bool:
        """Return whether a live task has this value already."""
        return not self.end and self.applied(task) == task

    def shown(self, task: Any) -> str:
        """Return the present value in a TaskView, as `fairlane task set` takes it."""
        return CONTROLS[self.name].shown(task)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    new: Callable[[Any, Any], dict[str, Any]]
    """From a value and a task: the task's new fields."""
    parsed: Callable[[ControlChange], Any]
    """The value in a record. Raises Malformed."""
    checked: Callable[[Any], Any] = str
    """The value that a user gave. Raises InvalidInput."""
    text: Callable[[Any], str] = str
    """From a value to its text on the wire."""
    shown: Callable[[Any], str] = lambda task: str(task.state)
    """From a task to its present value, for people."""
    end: str = ""
    """The state in which it ends a task."""
    stored_in: str = ""
    """The field of the task's hash in Redis, if it is not the control's name. `<name>_pos` has the position."""


def one_of(name: str, value: object, known: tuple[object, ...]) -> None:
    """Raise InvalidInput unless the value is None or one of those known."""
    if value is not None and value not in known:
        raise InvalidInput(f"{name}: is {value!r}; it must be one of {', '.join(map(str, known))}.")


def edited_message(stored: bytes) -> bytes:
    """Return the message in the stored text of an Override, encoded as in an envelope."""
    return bytes(encode_message(msgspec.json.decode(stored.partition(b":")[2])))


def edits_of(stored: str) -> int:
    """Return the number of the last edit from the stored text of an Override; 0 if it is empty."""
    return int(stored.partition(":")[0] or 0)


def _given_tier(given: Any) -> Tier:
    one_of("tier", given, TIERS)
    return Tier(given)


def _given_pause(given: Any) -> bool:
    if not isinstance(given, bool):
        raise InvalidInput(f"paused: is {given!r}; it must be True or False.")
    return given


def _given_reason(given: Any) -> str:
    reason = sound_text(given.strip()) if isinstance(given, str) else ""
    if not reason:
        raise InvalidInput(f"reason: is {given!r}.", "Give the reason for the stop as a text.")
    return reason


def _override(record: ControlChange) -> Override:
    number, _, text = record.value.partition(":")
    edit = check.digits(number, "override's number", MAX_EDITS)
    try:
        message = msgspec.json.decode(text, type=dict[str, Any])
        size = len(bytes(encode_message(message)))
    except DECODING_ERRORS as error:
        raise Malformed(f"its message is not readable: {error}") from error
    check.need(size <= MAX_MESSAGE_BYTES, "message's size", size)
    check.need(not complaint_of([message]), "message", message)
    return Override(edit, message)


def _after(event: str, task: Any) -> dict[str, Any]:
    return {"state": TASK.after(task.state, event)}


CONTROLS: dict[str, _Kind] = {
    "weight": _Kind(  # in thousandths
        new=lambda milli, _: {"weight": milli / MILLI},
        parsed=lambda record: check.weight(record.value),
        checked=lambda given: in_milli("weight", given),
        shown=lambda task: f"{task.weight:g}",
    ),
    "tier": _Kind(
        new=lambda tier, _: {"tier": str(tier)},
        parsed=lambda record: check.tier(record.value),
        checked=_given_tier,
        shown=lambda task: str(task.tier),
    ),
    "cap": _Kind(
        new=lambda cap, _: {"cap": cap.rate, "cap_burst": cap.burst},
        parsed=lambda record: check.cap(record.value, "cap"),
        checked=Cap.of,
        text=lambda cap: cap.text,
        shown=lambda task: Cap(task.cap, task.cap_burst).text if task.cap else "none",
    ),
    "paused": _Kind(
        # A trial send is paused from the beginning, and sends its first targets until this control is changed.
        new=lambda on, task: _after("pause" if on else "resume", task) | {"waits_for_go": False},
        parsed=lambda record: check.switch(record.value, "pause"),
        checked=_given_pause,
        text=lambda on: str(int(on)),
        shown=lambda task: "trial" if task.waits_for_go else "yes" if task.state == "paused" else "no",
    ),
    "cancelled": _Kind(  # False has no effect: a cancel is never taken back
        new=lambda on, task: _after("cancel", task) if on else {},
        parsed=lambda record: check.switch(record.value, "cancel"),
        checked=bool,
        text=lambda on: str(int(on)),
        end="cancelled",
    ),
    # The reason. Nothing more is sent, open targets end as cancelled, and the task fails with the reason. It cannot be
    # undone; the first reason in the topic counts. Any client or worker may append it.
    "stopped": _Kind(
        new=lambda _, task: _after("fail", task),
        parsed=lambda record: check.reason(record.value),
        checked=_given_reason,
        end="failed",
    ),
    # The same, even for a task that was ended before and that something holds up.
    "close": _Kind(
        new=lambda _, task: {} if task.ended else {"state": "failed"},
        parsed=lambda record: check.reason(record.value),
        checked=_given_reason,
        end="failed",
    ),
    "lane": _Kind(  # the topic of a task that leaves its shared lane
        new=lambda lane, _: {"lane": lane, "shared": False},
        parsed=lambda record: check.lane(record.value, record.task),
        stored_in="moved_lane",
    ),
    "override": _Kind(
        new=lambda edit, task: {"edits": max(edit.number, getattr(task, "edits", 0) + 1)},
        parsed=_override,
        text=lambda edit: f"{edit.number}:{msgspec.json.encode(edit.message).decode()}",
    ),
}
"""The kinds of controls by their names on the wire."""
