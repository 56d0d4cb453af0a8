"""The lists that requests see: made again as often as their cost allows."""

from collections.abc import Collection, Mapping

from dispatcher.clock import Clock
from dispatcher.model.view import Globals, TaskView
from producers.desk.board.lists import Lists

COSTS = 20
"""Lists and estimates are made again after this many times the time that they took."""
_LEAST_S = 0.2
"""The least time until lists are made again."""
_STEP_S = 0.01
"""Time for orders in one step: with many tasks no other thread runs while one is made, so requests come in between."""


class ShownLists:
    """Lists that follow the tasks. `update` is for one thread, the rest for any."""

    def __init__(self, clock: Clock) -> None:
        self.lists = Lists()
        self.as_of_s = float("-inf")
        """Monotonic time up to which they know of changes."""
        self.is_complete = False
        """Whether they have all live tasks."""
        self.is_stale = False
        """Set once a task, or an estimate, differs from that in the lists."""
        self.settings: Globals | None = None
        """Settings of the service. A change of them makes the lists stale."""
        self._clock = clock
        self._next: tuple[Lists, float, bool] | None = None
        self._next_at_s = float("-inf")
        self._cost_s = 0.0

    def update(
        self, tasks: Collection[TaskView], etas: Mapping[str, float], as_of_s: float, *, is_complete: bool
    ) -> None:
        """Make lists of the tasks if they are stale and it is time, or go on with it. The orders that were asked for
        are made before they are shown."""
        began_s = self._clock.monotonic_s()
        if self._next is None:
            if not self.is_stale:
                self.as_of_s, self.is_complete = as_of_s, is_complete
                return
            if began_s < self._next_at_s:
                return
            self.is_stale, self._cost_s = False, 0.0
            self._next = Lists(tasks, etas, self._clock.wall_ms(), self.settings), as_of_s, is_complete
        is_ready = self._prepare(self._next[0], began_s + _STEP_S)
        self._cost_s += self._clock.monotonic_s() - began_s
        if is_ready:
            (self.lists, self.as_of_s, self.is_complete), self._next = self._next, None
            self._next_at_s = self._clock.monotonic_s() + max(_LEAST_S, COSTS * self._cost_s)

    def _prepare(self, lists: Lists, until_s: float) -> bool:
        while lists.prepare(self.lists.used):
            if self._clock.monotonic_s() >= until_s:
                return False
        return True
