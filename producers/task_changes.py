"""Which tasks are to be changed, and how: values only."""

from collections.abc import Callable
from dataclasses import dataclass

from dispatcher.control import stopping
from dispatcher.errors import InvalidInput
from dispatcher.service_settings import Cap
from dispatcher.tier import MAX_WEIGHT, MILLI, MIN_WEIGHT, TIERS, Tier
from dispatcher.view import ENDED_STATES, STATES, TaskView

LIVE_STATES = tuple(state for state in STATES if state not in ENDED_STATES)
"""States in which a task takes changes."""


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """Tasks that are live and for which all of this holds. None holds for all."""

    ids: tuple[str, ...] = ()
    """Only these; empty: any."""
    app: str | None = None
    """Owner of the task."""
    tier: Tier | str | None = None
    """As it is now."""
    channel: str | None = None
    """What delivers it."""
    state: str | None = None
    """scheduled, running or paused."""
    id_prefix: str | None = None
    """What their ids begin with."""

    def __post_init__(self) -> None:
        _one_of("tier", self.tier, TIERS)
        _one_of("state", self.state, LIVE_STATES)

    @property
    def names_all(self) -> bool:
        """Whether nothing narrows it down."""
        return self == TaskFilter()

    def takes(self, task: TaskView) -> bool:
        """Whether the filter holds for a task that is live."""
        wanted = {"app": self.app, "tier": self.tier, "channel": self.channel, "state": self.state}
        return (
            (not self.ids or task.id in self.ids)
            and all(value is None or getattr(task, name) == value for name, value in wanted.items())
            and task.id.startswith(self.id_prefix or "")
        )


@dataclass(frozen=True, slots=True)
class Changes:
    """New values of a task's controls; None: as it is."""

    weight: float | None = None
    """Share among the tasks of its tier, 0.001 to 1,000."""
    tier: Tier | str | None = None
    """`high`, `medium` or `low`."""
    cap: Cap | int | str | None = None
    """Targets/s, as a number, a Cap, "RATE" or "RATE:BURST"; 0 or "none": no cap of its own."""
    paused: bool | None = None
    """Whether nothing more is sent until it is resumed."""
    cancelled: bool = False
    """True ends the task."""
    stopped: str | None = None
    """Ends it as failed, for this reason."""

    @property
    def end(self) -> str:
        """Return the state in which the changes end a task; empty if it goes on."""
        return "cancelled" if self.cancelled else "" if self.stopped is None else "failed"

    def fields(self) -> dict[str, str]:
        """What is stored, by field. Raises InvalidInput for a value beyond its limits, or if nothing is to change."""
        given: dict[str, Callable[[], str] | None] = {
            "weight": None if self.weight is None else self._weight,
            "tier": None if self.tier is None else self._tier,
            "cap": None if self.cap is None else self._cap,
            "paused": None if self.paused is None else lambda: "1" if self.paused else "0",
            "cancelled": (lambda: "1") if self.cancelled else None,
            "stopped": None if self.stopped is None else self._reason,
        }
        fields = {name: text() for name, text in given.items() if text is not None}
        if not fields:
            raise InvalidInput("There is nothing to change.", f"Name at least one of {', '.join(given)}.")
        return fields

    def needed(self, task: TaskView) -> dict[str, str]:
        """The fields in which the task is not yet as wished."""
        return {name: text for name, text in self.fields().items() if not _is_so(task, name, text)}

    def _reason(self) -> str:
        reason = stopping("", self.stopped or "", 0).value
        if not reason:
            raise InvalidInput("reason: is empty.", "Say why the task is stopped.")
        return reason

    def _weight(self) -> str:
        weight = self.weight or 0
        if not MIN_WEIGHT <= weight <= MAX_WEIGHT:
            raise InvalidInput(f"weight: is {weight}; it can be {MIN_WEIGHT} to {MAX_WEIGHT:,}.")
        return str(round(weight * MILLI))

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
        raise InvalidInput(f"{name}: is {value!r}; it can be {', '.join(map(str, known))}.")
