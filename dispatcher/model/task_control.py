"""The controls of a task: what may change while it runs. A Control checks, encodes, parses, shows and applies itself.

On the wire a control is a `ControlChange` with a name and a text. `backends/redis/lua/registry/apply_control.lua`
applies it to the view.
"""

from typing import Any, ClassVar, Protocol, Self, TypeVar

import msgspec

from dispatcher.model.errors import DECODING_ERRORS, InvalidInput, Malformed
from dispatcher.model.lifecycle import TASK
from dispatcher.model.service_settings import Cap
from dispatcher.model.task import MAX_MESSAGE_BYTES
from dispatcher.model.tier import MILLI, TIERS, Tier, in_milli
from dispatcher.wire import field_checks as check
from dispatcher.wire.control import FORMAT, ControlChange
from dispatcher.wire.envelope import encode_message
from dispatcher.wire.outcome import sound_text

MAX_EDITS = 10**9


class TaskShape(Protocol):
    """A frozen struct that describes a task, such as TaskView or Submission. It may lack fields that a control sets."""

    __struct_fields__: ClassVar[tuple[str, ...]]

    @property
    def state(self) -> str: ...

    @property
    def ended(self) -> bool: ...


S = TypeVar("S", bound=TaskShape)


class Control(msgspec.Struct, frozen=True):
    """A new value of one control of a task."""

    name: ClassVar[str]
    """Its name on the wire."""
    end: ClassVar[str] = ""
    """The state in which it ends a task; empty if it does not."""

    @classmethod
    def of(cls, value: Any) -> Self:
        """Check a value given by a user. Raises InvalidInput."""
        raise NotImplementedError

    @classmethod
    def parse(cls, record: ControlChange) -> Self:
        """Parse a record of this kind. Raises Malformed."""
        raise NotImplementedError

    @property
    def text(self) -> str:
        """The value on the wire."""
        raise NotImplementedError

    @classmethod
    def stored_in(cls) -> str:
        """Return the field of the task's hash in Redis. The field `<name>_pos` has the position that set it."""
        return cls.name

    @property
    def needs_own_lane(self) -> bool:
        """Whether a task must leave its shared lane, which is first in, first out."""
        return not self.end

    @property
    def event(self) -> str:
        """The event of a task's life cycle that it causes; empty for none."""
        return ""

    @property
    def fields(self) -> dict[str, Any]:
        """The new values of a task's other fields."""
        return {}

    def applied(self, task: S) -> S:
        """Return the task after the change."""
        state = TASK.transitions[task.state].get(self.event, task.state)
        return _replaced(task, {"state": state, **self.fields})

    def is_set(self, task: TaskShape) -> bool:
        """Return whether a live task has this value already."""
        return not self.end and self.applied(task) == task

    def shown(self, task: Any) -> str:
        """Return the present value of this control in a TaskView, as `fairlane task set` takes it."""
        return str(task.state)

    def record(self, task: str, at_ms: int) -> ControlChange:
        """Return the record for the control topic."""
        return ControlChange(FORMAT, task, self.name, self.text, at_ms)


class SetWeight(Control, frozen=True):
    """Change the weight among the tasks of a tier."""

    name = "weight"
    milli: int
    """In thousandths."""

    @classmethod
    def of(cls, value: Any) -> Self:
        return cls(in_milli("weight", value))

    @classmethod
    def parse(cls, record: ControlChange) -> Self:
        return cls(check.weight(record.value))

    @property
    def text(self) -> str:
        return str(self.milli)

    @property
    def fields(self) -> dict[str, Any]:
        return {"weight": self.milli / MILLI}

    def shown(self, task: Any) -> str:
        return f"{task.weight:g}"


class SetTier(Control, frozen=True):
    """Move the task, with its queued targets, to another tier."""

    name = "tier"
    tier: Tier

    @classmethod
    def of(cls, value: Any) -> Self:
        one_of("tier", value, TIERS)
        return cls(Tier(value))

    @classmethod
    def parse(cls, record: ControlChange) -> Self:
        check.need(record.value in TIERS, "tier", record.value)
        return cls(Tier(record.value))

    @property
    def text(self) -> str:
        return str(self.tier)

    @property
    def fields(self) -> dict[str, Any]:
        return {"tier": str(self.tier)}

    def shown(self, task: Any) -> str:
        return str(task.tier)


class SetCap(Control, frozen=True):
    """Change the task's own cap."""

    name = "cap"
    cap: Cap

    @classmethod
    def of(cls, value: Any) -> Self:
        if isinstance(value, str):
            return cls(Cap.parse(value))
        return cls((value if isinstance(value, Cap) else Cap(value or 0)).checked())

    @classmethod
    def parse(cls, record: ControlChange) -> Self:
        return cls(check.cap(record.value, "cap"))

    @property
    def text(self) -> str:
        return self.cap.text

    @property
    def fields(self) -> dict[str, Any]:
        return {"cap": self.cap.rate, "cap_burst": self.cap.burst}

    def shown(self, task: Any) -> str:
        return Cap(task.cap, task.cap_burst).text if task.cap else "none"


class _Switch(Control, frozen=True):
    on: bool = True

    @classmethod
    def of(cls, value: Any) -> Self:
        if not isinstance(value, bool):
            raise InvalidInput(f"{cls.name}: is {value!r}; it must be True or False.")
        return cls(value)

    @classmethod
    def parse(cls, record: ControlChange) -> Self:
        return cls(check.switch(record.value, cls.name))

    @property
    def text(self) -> str:
        return str(int(self.on))


class SetPaused(_Switch, frozen=True):
    """Pause the task, or resume it."""

    name = "paused"

    @property
    def needs_own_lane(self) -> bool:
        return self.on

    @property
    def event(self) -> str:
        return "pause" if self.on else "resume"

    def shown(self, task: Any) -> str:
        return "yes" if task.state == "paused" else "no"


class SetCancelled(_Switch, frozen=True):
    """Cancel the task. It cannot be undone, so False has no effect."""

    name, end = "cancelled", "cancelled"

    @property
    def event(self) -> str:
        return "cancel" if self.on else ""


class SetStopped(Control, frozen=True):
    """Stop the task for good.

    Nothing more is sent, open targets end as cancelled, and the task fails with this reason. It cannot be undone; the
    first reason in the topic counts. Any client or worker may append it.
    """

    name, end = "stopped", "failed"
    reason: str

    @classmethod
    def of(cls, value: Any) -> Self:
        reason = sound_text(value.strip()) if isinstance(value, str) else ""
        if not reason:
            raise InvalidInput(f"reason: is {value!r}.", "Give the reason for the stop as a text.")
        return cls(reason)

    @classmethod
    def parse(cls, record: ControlChange) -> Self:
        return cls(check.reason(record.value))

    @property
    def text(self) -> str:
        return self.reason

    @property
    def event(self) -> str:
        return "fail"


class SetClosed(SetStopped, frozen=True):
    """End a stopped or cancelled task even if something holds it up."""

    name = "close"

    def applied(self, task: S) -> S:
        return task if task.ended else _replaced(task, {"state": self.end})


class SetLane(Control, frozen=True):
    """Move the task from a shared lane to its own."""

    name = "lane"
    lane: str
    """Its topic."""

    @classmethod
    def parse(cls, record: ControlChange) -> Self:
        return cls(check.lane(record.value, record.task))

    @property
    def text(self) -> str:
        return self.lane

    @classmethod
    def stored_in(cls) -> str:
        return "moved_lane"

    @property
    def fields(self) -> dict[str, Any]:
        return {"lane": self.lane, "shared": False}


class SetMessage(Control, frozen=True):
    """Replace the message of all unsent targets."""

    name = "override"
    number: int
    """Grows by one per edit. Of two edits made at once, the later one in the topic applies and takes the next number.
    """
    message: dict[str, Any]

    @classmethod
    def parse(cls, record: ControlChange) -> Self:
        number, _, message = record.value.partition(":")
        edit = check.digits(number, "override's number", MAX_EDITS)
        try:
            made = cls(edit, msgspec.json.decode(message, type=dict[str, Any]))
            size = len(made.encoded)
        except DECODING_ERRORS as error:
            raise Malformed(f"its message is not readable: {error}") from error
        check.need(size <= MAX_MESSAGE_BYTES, "message's size", size)
        return made

    @property
    def text(self) -> str:
        return f"{self.number}:{msgspec.json.encode(self.message).decode()}"

    @property
    def encoded(self) -> bytes:
        """The message, encoded as in an envelope."""
        return bytes(encode_message(self.message))

    def applied(self, task: S) -> S:
        return _replaced(task, {"edits": max(self.number, getattr(task, "edits", 0) + 1)})


def edited_message(stored: bytes) -> bytes:
    """Return the message in the stored text of a SetMessage, encoded as in an envelope."""
    return bytes(encode_message(msgspec.json.decode(stored.partition(b":")[2])))


def edits_of(stored: str) -> int:
    """Return the number of the last edit from the stored text of a SetMessage; 0 if it is empty."""
    return int(stored.partition(":")[0] or 0)


_KINDS = (SetWeight, SetTier, SetCap, SetPaused, SetCancelled, SetStopped, SetClosed, SetLane, SetMessage)
CONTROLS: dict[str, type[Control]] = {kind.name: kind for kind in _KINDS}
"""The kinds of controls by their names on the wire."""


def control_of(record: ControlChange) -> Control:
    """Parse a record. Raises Malformed."""
    kind = CONTROLS.get(record.field)
    if kind is None:
        raise Malformed(f"this version knows no control {repr(record.field)[:80]}")
    return kind.parse(record)


def one_of(name: str, value: object, known: tuple[object, ...]) -> None:
    """Raise InvalidInput unless the value is None or one of those known."""
    if value is not None and value not in known:
        raise InvalidInput(f"{name}: is {value!r}; it must be one of {', '.join(map(str, known))}.")


def _replaced(task: S, new: dict[str, Any]) -> S:
    known = {name: value for name, value in new.items() if name in task.__struct_fields__}
    return msgspec.structs.replace(task, **known)  # type: ignore[type-var]  # a Protocol cannot be a struct
