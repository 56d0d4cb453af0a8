"""Outcomes that a worker knows and that no outcome topic holds yet."""

from collections.abc import Iterable
from itertools import takewhile
from typing import NamedTuple

from dispatcher.settle import Draft

LATE_S = 5.0
"""A record is late after this: far longer than it takes while Pulsar answers, far shorter than the time for which
claims of a worker that is alive are spared anyway (`lease.SPARED_MS`)."""
MAX_TASKS = 50
"""Maximum tasks that are named."""


class LateRecords(NamedTuple):
    """Outcomes that have waited for their record for too long."""

    since_s: float
    """When the oldest became known (monotonic)."""
    targets: int
    tasks: list[str]
    """Whose outcomes they are, the oldest first; not more than MAX_TASKS."""


class UnrecordedOutcomes:
    """Drafts of records in the order in which they were begun."""

    def __init__(self) -> None:
        self._since: dict[Draft, float] = {}

    def add(self, draft: Draft, since_s: float) -> None:
        """Count a draft from its first outcome on."""
        self._since[draft] = since_s

    def forget(self, draft: Draft) -> None:
        """Its record is stored, or never will be."""
        self._since.pop(draft, None)

    def late(self, now_s: float) -> LateRecords | None:
        """Return what has waited for too long; None if nothing has."""
        late = list(takewhile(lambda item: now_s - item[1] >= LATE_S, self._since.items()))
        if not late:
            return None
        return LateRecords(late[0][1], sum(draft.targets for draft, _ in late), _tasks(draft for draft, _ in late))


def _tasks(drafts: Iterable[Draft]) -> list[str]:
    return list(dict.fromkeys(draft.task for draft in drafts))[:MAX_TASKS]
