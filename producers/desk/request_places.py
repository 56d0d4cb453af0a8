"""How many requests an app may make in a second, over all processes: taken from Redis in small blocks."""

import threading
from collections.abc import Callable

from dispatcher.clock import Clock

BLOCKS = 50
"""An app's maximum is taken in this number of blocks: one call for each, and not one for each request."""
Take = Callable[[str, int, int], tuple[int, int]]


class RequestPlaces:
    """Places for requests that this process has taken and not used. They end with the second in which they were taken,
    so that no second has more than the maximum. May be called by any thread."""

    def __init__(self, take: Take, clock: Clock) -> None:
        """take: takes places of an app up to a maximum, and returns their number and how long they are good, in ms."""
        self._take = take
        self._clock = clock
        self._lock = threading.Lock()
        self._blocks: dict[str, tuple[int, float]] = {}
        """Places left by app, and until when."""

    def use(self, app: str, maximum: int) -> bool:
        """Use a place. Return False if the app has none left in this second. Raises what `take` raises."""
        now_s = self._clock.monotonic_s()
        if self._add(app, -1, now_s, now_s):
            return True
        taken, ms = self._take(app, maximum, max(1, maximum // BLOCKS))
        return self._add(app, taken - 1, now_s, now_s + ms / 1000) if taken else False

    def _add(self, app: str, places: int, now_s: float, until_s: float) -> bool:
        """Add places to those that are left. Return False, and add none, if there would be less than 0."""
        with self._lock:
            left, ends_s = self._blocks.get(app, (0, now_s))
            if now_s >= ends_s:
                left, ends_s = 0, until_s
            if left + places < 0:
                return False
            self._blocks[app] = left + places, ends_s
            return True
