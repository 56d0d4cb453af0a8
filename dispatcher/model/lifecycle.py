"""The life cycles of tasks and workers as tables. Controls follow them, and the diagrams in the docs are drawn from
them."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Lifecycle:
    """States and the transitions between them."""

    name: str
    """The kind of object, as used in messages."""
    start: tuple[str, ...]
    """The possible first states."""
    transitions: Mapping[str, Mapping[str, str]]
    """State -> event -> next state. A state without events is final."""

    @property
    def states(self) -> tuple[str, ...]:
        return tuple(self.transitions)

    def ends(self, state: str) -> bool:
        """Return whether the state is final."""
        return not self.transitions[state]

    def after(self, state: str, event: str) -> str:
        """Return the state after an event; the same state if the event cannot happen in it."""
        return self.transitions[state].get(event, state)


_ENDS_EARLY = {"fail": "failed", "cancel": "cancelled", "expire": "expired"}

TASK = Lifecycle(
    name="task",
    start=("scheduled", "running", "paused"),
    transitions={
        "scheduled": {"start": "running", "pause": "paused", **_ENDS_EARLY},
        "running": {"pause": "paused", "complete": "completed", **_ENDS_EARLY},
        # The work under way at the time of the pause may have been the last of the task.
        "paused": {"resume": "running", "reschedule": "scheduled", "complete": "completed", **_ENDS_EARLY},
        "completed": {},
        "cancelled": {},
        "expired": {},
        "failed": {},
    },
)
"""`sealed` is not a state: dispatch runs while targets still arrive. `reschedule`: resumed before its start time. A
trial send is paused from the beginning."""

WORKER = Lifecycle(
    name="worker",
    start=("standby", "starting"),
    transitions={
        "standby": {"finish": "stopped", "miss": "suspect"},
        "starting": {"serve": "serving", "drain": "draining", "miss": "suspect"},
        "serving": {"drain": "draining", "miss": "suspect"},
        "draining": {"finish": "stopped", "miss": "suspect"},
        "suspect": {
            "beat": "serving",
            "beat_draining": "draining",
            "beat_starting": "starting",
            "beat_standby": "standby",
            "give_up": "lost",
        },
        "lost": {"beat": "serving", "beat_draining": "draining", "beat_standby": "standby"},
        "stopped": {},
    },
)
"""Missed heartbeats make a worker suspect and then lost. When it beats again, it is in the state that it reports."""
