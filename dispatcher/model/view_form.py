"""The form of the view in Redis, and which workers may serve it.

The form changes when older folds would not keep data that newer ones need. So a view is served only by workers of its
form. Older workers leave a view of a higher form alone. Newer ones wait until no older worker is left, and then rebuild
the view in their form.
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from dispatcher.model.values import listed
from dispatcher.model.view import WorkerBeat

FORM = 4
"""The form of this version's view."""
GONE = ("stopped", "lost")
"""States of workers that do nothing any more."""
MAX_NAMED = 5


class ViewRole(Enum):
    """Whether a worker of this version may serve the current view."""

    SERVE = "serve"
    REBUILD = "rebuild"
    """Rebuild the view in this version's form, and serve that."""
    STAND_BY = "stand by"


class ViewDecision(NamedTuple):
    """The decision on a view, with the reason."""

    role: ViewRole
    why: str = ""
    """For the log; empty if the view may be served."""


def older_workers(beats: Sequence[WorkerBeat]) -> list[WorkerBeat]:
    """Return the workers that keep views of an older form, or do not name a form. On standby they keep none."""
    return [beat for beat in beats if beat.form < FORM and beat.state not in (*GONE, "standby")]


def judge(form: int | None, beats: Sequence[WorkerBeat]) -> ViewDecision:
    """Judge a view. `form` is None if Redis holds no view; `beats` are the heartbeats of all workers."""
    if form is not None and form > FORM:
        return ViewDecision(
            ViewRole.STAND_BY, f"the view in Redis has form {form}, this version needs {FORM}: upgrade this worker"
        )
    older = older_workers(beats)
    if older:
        named = listed([f"{beat.id} ({beat.version or 'no version'})" for beat in older], MAX_NAMED)
        return ViewDecision(ViewRole.STAND_BY, f"workers of an older version serve the view: stop {named}")
    if form is not None and form < FORM:
        return ViewDecision(ViewRole.REBUILD, f"the view in Redis has form {form}: it is rebuilt as form {FORM}")
    return ViewDecision(ViewRole.SERVE)
