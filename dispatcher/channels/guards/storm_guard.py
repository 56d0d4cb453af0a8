"""Tell a storm of dead targets from usual ones: many at once are probably our fault, such as a sandbox credential."""

from collections import deque
from dataclasses import dataclass

WINDOW_S = 60.0
BUCKET_S = 5.0
MAX_DEAD_SHARE = 0.3
"""Above this share of dead targets in the window, and above USUAL_TIMES the flow's usual share, a flow is suspected."""
USUAL_TIMES = 3.0
FIRST_SHARE = 0.1
"""Assumed usual share of a flow of which little is known."""
LEARNING = 0.2
"""Weight of the last window in the usual share."""
MIN_DEAD = 50
"""Minimum dead targets in the window. Fewer say nothing about a share."""
MIN_DEAD_ALONE = 20
"""Minimum dead targets if not a single target in the window was sent."""


@dataclass(slots=True, eq=False)
class _Bucket:
    """Answers of BUCKET_S."""

    from_s: float
    dead: int = 0
    sent: int = 0


class StormGuard:
    """Counts the answers of one flow."""

    def __init__(self) -> None:
        self._buckets: deque[_Bucket] = deque()
        self._dead = self._sent = 0
        """Sums of the buckets."""
        self._usual = FIRST_SHARE
        self._learned_s = float("-inf")

    def sent(self, now_s: float) -> None:
        """Note a target that the provider took."""
        self._bucket(now_s).sent += 1
        self._sent += 1

    def dead(self, now_s: float) -> bool:
        """Note a target that the provider says is dead. Return whether there are too many to believe it."""
        self._bucket(now_s).dead += 1
        self._dead += 1
        if not self._sent:
            return self._dead >= MIN_DEAD_ALONE
        return self._dead >= MIN_DEAD and self._share > max(MAX_DEAD_SHARE, USUAL_TIMES * self._usual)

    def text(self) -> str:
        """Return what was counted, for people."""
        return f"{self._dead:,} of {self._dead + self._sent:,} targets in the last minute are dead, says the provider"

    @property
    def _share(self) -> float:
        return self._dead / (self._dead + self._sent)

    def _bucket(self, now_s: float) -> _Bucket:
        """Return the present bucket, after forgetting old ones."""
        newest = self._buckets[-1] if self._buckets else None
        if newest is not None and now_s < newest.from_s + BUCKET_S:
            return newest
        self._learn(now_s)
        while self._buckets and self._buckets[0].from_s <= now_s - WINDOW_S:
            old = self._buckets.popleft()
            self._dead -= old.dead
            self._sent -= old.sent
        self._buckets.append(_Bucket(now_s))
        return self._buckets[-1]

    def _learn(self, now_s: float) -> None:
        """Once in a window, let the share of the last one count towards the usual share, if it has enough answers."""
        if now_s < self._learned_s + WINDOW_S:
            return
        self._learned_s = now_s
        if self._dead + self._sent >= MIN_DEAD:
            self._usual += LEARNING * (self._share - self._usual)
