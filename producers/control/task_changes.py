"""Values that say which tasks to change, and how."""

from collections.abc import Callable
from dataclasses import dataclass

from dispatcher.model.errors import InvalidInput
from dispatcher.model.service_settings import Cap
from dispatcher.model.tier import MILLI, TIERS, Tier, in_milli
from dispatcher.model.view import ENDED_STATES, STATES, TaskView
from dispatcher.wire.control import stopping

LIVE_STATES = tuple(state for state in STATES if state not in ENDED_STATES)
"""States in which a task accepts changes."""


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """Selects the live tasks that match all fields. None matches any task."""

    ids: tuple[str, ...] = ()
    """Only tasks with these ids; empty: any task."""
    app: str | None = None
    """The app that owns the task."""
    tier: Tier | str | None = None
    """The task's current tier."""
    channel: str | None = None
    """The channel that delivers the task."""
    state: str | None = None
    """scheduled, running or paused."""
    id_prefix: str | None = None
    """The beginning of the task's id."""

    def __post_init__(self) -> None:
        _one_of("tier", self.tier, TIERS)
        _one_of("state", self.state, LIVE_STATES)

    @property
    def names_all(self) -> bool:
        """Return whether the filter is empty and so matches every live task."""
        return self == TaskFilter()

    def takes(self, task: TaskView) -> bool:
        """Return whether the filter matches a live task."""
        wanted = {"app": self.app, "tier": self.tier, "channel": self.channel, "state": self.state}
        return (
            (not self.ids or task.id in self.ids)
            and all(value is None or getattr(task, name) == value for name, value in wanted.items())
            and task.id.startswith(self.id_prefix or "")
        )


@dataclass(frozen=True, slots=True)
class Changes:
    """New values of a task's controls; None: unchanged. A value outside its limits raises InvalidInput."""

    weight: float | None = None
    """Weight among the tasks of its tier, 0.001 to 1,000."""
    tier: Tier | str | None = None
    """`high`, `medium` or `low`."""
    cap: Cap | int | str | None = None
    """Targets/s, as a number, a Cap, "RATE" or "RATE:BURST"; 0 or "none": no cap of its own."""
    paused: bool | None = None
    """True: nothing more is sent until the task is resumed."""
    cancelled: bool = False
    """True: cancel the task."""
    stopped: str | None = None
    """End the task as failed with this reason."""
    closed: str | None = None
    """End the task as failed with this reason, even if it was ended before and cannot finish ending. Its claims and its
    outcome topic delay the end by some seconds only."""

    def __post_init__(self) -> None:
        self._stored()

    @property
    def end(self) -> str:
        """Return the state in which the changes end a task; empty if they do not end it."""
        return (
            "cancelled" if self.cancelled else "failed" if self.stopped is not None or self.closed is not None else ""
        )

    def takes(self, task: TaskView) -> bool:
        """Return whether the task accepts these changes. Only a close applies to a task that was ended but is still
        live."""
        return task.state in LIVE_STATES or (self.closed is not None and not task.ended)

    def is_done(self, task: TaskView) -> bool:
        """Return whether a task that accepts no more changes was ended this way. A task that has ended cannot be
        closed."""
        return self.closed is None and task.state == self.end

    def fields(self) -> dict[str, str]:
        """Return the stored values by field. Raise InvalidInput if nothing changes."""
        fields = self._stored()
        if not fields:
            raise InvalidInput("There is nothing to change.", f"Name at least one of {', '.join(self.__slots__)}.")
        return fields

    def _stored(self) -> dict[str, str]:
        given: dict[str, Callable[[], str] | None] = {
            "weight": None if self.weight is None else self._weight,
            "tier": None if self.tier is None else self._tier,
            "cap": None if self.cap is None else self._cap,
            "paused": None if self.paused is None else self._paused,
            "cancelled": (lambda: "1") if self.cancelled else None,
            "stopped": self._reason if self.stopped is not None or self.closed is not None else None,
            "close": None if self.closed is None else self._reason,
        }
        return {name: text() for name, text in given.items() if text is not None}

    def needed(self, task: TaskView) -> dict[str, str]:
        """Return the fields whose values differ from the requested ones."""
        return {name: text for name, text in self.fields().items() if not _is_so(task, name, text)}

    def _reason(self) -> str:
        given = self.stopped if self.closed is None else self.closed
        reason = stopping("", given, 0).value if isinstance(given, str) else ""
        if not reason:
            raise InvalidInput(f"reason: is {given!r}.", "Give the reason for the stop as a text.")
        return reason

    def _weight(self) -> str:
        return str(in_milli("weight", self.weight))

    def _paused(self) -> str:
        if not isinstance(self.paused, bool):
            raise InvalidInput(f"paused: is {self.paused!r}; it must be True or False.")
        return "1" if self.paused else "0"

    def _tier(self) -> str:
        _one_of("tier", self.tier, TIERS)
        return str(Tier(self.tier or ""))

    def _cap(self) -> str:
        cap = self.cap
        if isinstance(cap, str):
            return Cap.parse(cap).text
        return (cap if isinstance(cap, Cap) else Cap(cap or 0)).checked().text


def _is_so(task: TaskView, field: str, text: str) -> bool:
    match field:
        case "weight":
            return round(task.weight * MILLI) == int(text)
        case "tier":
            return task.tier == text
        case "cap":
            return Cap(task.cap, task.cap_burst).text == text
        case "paused":
            return (task.state == "paused") == (text == "1")
    return False


def _one_of(name: str, value: object, known: tuple[object, ...]) -> None:
    if value is not None and value not in known:
        raise InvalidInput(f"{name}: is {value!r}; it must be one of {', '.join(map(str, known))}.")
