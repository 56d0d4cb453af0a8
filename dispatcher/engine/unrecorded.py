"""Outcomes that a worker knows and that no outcome topic has stored yet."""

from itertools import takewhile
from typing import NamedTuple

from dispatcher.settle import Draft

LATE_S = 1.0
"""A record is late after this time, which is longer than it takes while Pulsar answers. A heartbeat reports it
before a new view grants anything: REPORT_MS in backends/redis/keys.py is longer."""
MAX_TASKS = 5_000
"""Maximum tasks named. A heartbeat with that many has 200 kB. A new view does not hold back more of them."""


class LateRecords(NamedTuple):
    """Outcomes that have waited too long for their record."""

    since_s: float
    """When the oldest became known (monotonic)."""
    targets: int
    tasks: list[str]
    """The tasks with such outcomes, the oldest first; at most MAX_TASKS."""


class UnrecordedOutcomes:
    """Tracks the outcomes that no topic has stored yet, by the drafts of their records, the oldest first."""

    def __init__(self) -> None:
        self._since: dict[Draft, float] = {}

    def add(self, draft: Draft, since_s: float) -> None:
        """Track a draft from its first outcome. Call `forget` once its record is stored."""
        self._since[draft] = since_s

    def forget(self, draft: Draft) -> None:
        """Remove a draft whose record is stored, or never will be."""
        self._since.pop(draft, None)

    def late(self, now_s: float) -> LateRecords | None:
        """Return the outcomes that have waited too long; None if there are none."""
        late = list(takewhile(lambda item: now_s - item[1] >= LATE_S, self._since.items()))
        if not late:
            return None
        tasks = dict.fromkeys(draft.task for draft, _ in late)
        return LateRecords(late[0][1], sum(draft.targets for draft, _ in late), list(tasks)[:MAX_TASKS])
