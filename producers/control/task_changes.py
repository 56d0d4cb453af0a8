"""Values that say which tasks to change, and how."""

from dataclasses import dataclass

from dispatcher.model.errors import InvalidInput
from dispatcher.model.pools import Cap
from dispatcher.model.task_control import Control, one_of
from dispatcher.model.tier import TIERS, Tier
from dispatcher.model.view import ENDED_STATES, STATES, TaskView
from dispatcher.wire.submission import Submission

LIVE_STATES = tuple(state for state in STATES if state not in ENDED_STATES)
"""States in which a task accepts changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
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
        one_of("tier", self.tier, TIERS)
        one_of("state", self.state, LIVE_STATES)
        for name in ("app", "channel", "id_prefix"):
            if getattr(self, name) == "":  # as of a variable that is not set; an empty beginning is that of every task
                raise InvalidInput(f"{name}: is empty.", "Give a text, or leave it out.")

    @property
    def names_all(self) -> bool:
        """Return whether the filter is empty and so matches every live task."""
        return self == TaskFilter()

    def takes(self, task: TaskView) -> bool:
        """Return whether the filter matches a live task."""
        required = {"app": self.app, "tier": self.tier, "channel": self.channel, "state": self.state}
        return (
            (not self.ids or task.id in self.ids)
            and all(value is None or getattr(task, name) == value for name, value in required.items())
            and task.id.startswith(self.id_prefix or "")
        )


@dataclass(frozen=True, slots=True, kw_only=True)
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
        self._given()

    @property
    def end(self) -> str:
        """Return the state in which the changes end a task; empty if they do not end it."""
        return next((control.end for control in self._given() if control.end), "")

    def takes(self, task: TaskView | Submission) -> bool:
        """Return whether the task accepts these changes. Only a close applies to a task that was ended but is still
        live."""
        return task.state in LIVE_STATES or (self.closed is not None and not task.ended)

    def is_done(self, task: TaskView | Submission) -> bool:
        """Return whether a task that accepts no more changes was ended this way. A task that has ended cannot be
        closed."""
        return self.closed is None and task.state == self.end

    def controls(self) -> tuple[Control, ...]:
        """Return the new values. Raise InvalidInput if nothing changes."""
        controls = self._given()
        if not controls:
            raise InvalidInput("There is nothing to change.", f"Name at least one of {', '.join(self.__slots__)}.")
        return controls

    def fields(self) -> dict[str, str]:
        """Return the new values by name, as they are stored. Raise InvalidInput if nothing changes."""
        return {control.name: control.text for control in self.controls()}

    def _given(self) -> tuple[Control, ...]:
        given = {
            "weight": self.weight,
            "tier": self.tier,
            "cap": self.cap,
            "paused": self.paused,
            "cancelled": self.cancelled or None,
            "stopped": self.stopped if self.closed is None else self.closed,
            "close": self.closed,
        }
        return tuple(Control.of(name, value) for name, value in given.items() if value is not None)
