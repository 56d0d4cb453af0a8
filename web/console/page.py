"""A page: what it reads, and the forms on it. A form is previewed before it changes anything."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, NamedTuple

from dispatcher.analysis.what_if import FinishChange
from dispatcher.model.errors import InvalidInput
from producers.desk.front_door import Desks

TYPED_TASKS = 10
TYPED_TARGETS = 1_000_000
"""Above either, the number of tasks is typed before anything changes."""


class Visit(NamedTuple):
    """One request of a page, or of a form on it."""

    desks: Desks
    """The desks of who is signed in."""
    path: Mapping[str, str]
    """Names in the path."""
    query: Mapping[str, str]
    form: Mapping[str, str] = {}
    """Fields of a form that was sent. Of a name that was sent more than once: all values, with line feeds between."""


class Plan(NamedTuple):
    """The effect of a form before it is sent."""

    title: str
    """Such as: Pause 12 tasks."""
    changes: Sequence[str] = ()
    """Values that would change, each before and after. Once one of them is another, the plan is shown again."""
    lines: Sequence[str] = ()
    """Other effects, in words."""
    effects: Sequence[FinishChange] | None = None
    """Tasks that would end at another time; None: the form is not about that."""
    others: bool = False
    """Whether tasks would be affected that the user may not see."""
    tasks: int = 0
    """Tasks that would be changed."""
    targets: int = 0
    """Targets of these tasks that wait, or that would be sent or dropped."""

    @property
    def seen(self) -> str:
        """A digest of `changes`."""
        return sha256("\n".join(self.changes).encode(errors="replace")).hexdigest()[:16]

    @property
    def typed(self) -> int:
        """The number to be typed; 0: none."""
        if self.tasks > TYPED_TASKS:
            return self.tasks
        return self.targets if self.targets > TYPED_TARGETS else 0


class Elsewhere(InvalidInput):
    """A change that has been made already. Another setting holds the tasks back, which a form elsewhere changes."""

    def __init__(self, cause: str, to: str) -> None:
        super().__init__(cause, "An operator resumes it at Limits.")
        self.to = to


class Done(NamedTuple):
    """The effect of a form that was sent."""

    text: str
    """The effect in a sentence."""
    to: str = ""
    """The page to be shown next; empty: the form's."""
    secret: str = ""
    """A text that is shown this once, such as a new key."""
    tasks: Sequence[str] = ()
    """Tasks that were made, to go on with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A change that a page offers. Both functions run in a thread, and raise errors of Fairlane."""

    plan: Callable[[Visit], Plan]
    apply: Callable[[Visit], Done]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page. Its template is `NAME.html`."""

    name: str
    path: str
    title: str
    action: str
    """The action of the table that one must be allowed to do to see it."""
    read: Callable[[Visit], dict[str, Any]]
    """Return what its template shows. Under `rows`: what it gives as CSV. Raises errors of Fairlane."""
    forms: Mapping[str, Form] = field(default_factory=dict)
    """Forms by the last part of their address."""
    in_menu: bool = True
    is_of_silence: bool = False
    """Whether it is read although servers are silent, since it says why."""
