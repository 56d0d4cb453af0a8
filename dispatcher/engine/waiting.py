"""Demand of lanes without an attached worker: announced in slices, and again before it expires."""

from collections import deque
from collections.abc import Sequence

from dispatcher.ports import WaitingLane
from dispatcher.wire.lease import LaneAsk, LaneKind

SLICE = 100
"""Lanes announced in one call."""
SLICE_EVERY_S = 0.2
MIN_VALID_MS = 3_000


class Waiting:
    """Waiting lanes, each announced twice while an announcement is valid. The more lanes there are, the longer an
    announcement is valid, so it never takes more than five calls a second."""

    def __init__(self) -> None:
        self._lanes: dict[str, WaitingLane] = {}
        self._queue: deque[str] = deque()
        """Every lane once, next to be announced first. May include lanes that no longer wait."""
        self._queued: set[str] = set()
        self._new = 0
        self._taken_s = self._due_s = 0.0

    @property
    def valid_ms(self) -> int:
        """Return how long an announcement is valid: two rounds of all slices."""
        rounds = -(-len(self._lanes) // SLICE)
        return max(MIN_VALID_MS, round(2_000 * SLICE_EVERY_S * (rounds + 1)))

    def change(self, lanes: Sequence[WaitingLane]) -> None:
        """Replace the set of waiting lanes."""
        self._lanes = {lane.name: lane for lane in lanes}
        new = [name for name in self._lanes if name not in self._queued]
        self._queued.update(new)
        self._queue.extendleft(reversed(new))
        self._new = min(self._new + len(new), len(self._lanes))
        if new:
            self._due_s = min(self._due_s, self._taken_s + SLICE_EVERY_S)
        if len(self._queue) > 2 * len(self._lanes) + SLICE:
            self._forget_others()

    def _forget_others(self) -> None:
        """Forget lanes that no longer wait. With ample capacity no slice is taken for days, while tasks come and go."""
        self._queue = deque(name for name in self._queue if name in self._lanes)
        self._queued = set(self._queue)

    def due_s(self) -> float | None:
        """Return when the next slice is due; None if there is nothing to announce."""
        return self._due_s if self._lanes else None

    def take(self, now_s: float) -> list[LaneAsk]:
        """Return the next slice, if it is due."""
        if not self._lanes or now_s < self._due_s:
            return []
        asks: list[LaneAsk] = []
        for _ in range(len(self._queue)):
            if len(asks) == SLICE:
                break
            lane = self._lanes.get(name := self._queue.popleft())
            if lane is None:
                self._queued.discard(name)
                continue
            self._queue.append(name)
            asks.append(
                LaneAsk(
                    lane=lane.name,
                    kind=LaneKind.OWN,
                    tier="",
                    demand=lane.targets,
                    wants=[],
                    waiting=True,
                    task=lane.task,
                )
            )
        self._new = max(0, self._new - SLICE)
        self._taken_s, self._due_s = now_s, now_s + self._pause_s()
        return asks

    def _pause_s(self) -> float:
        """Return the time to the next slice. New lanes are announced at the full rate of five calls a second; a few old
        ones need fewer."""
        slices = -(-len(self._lanes) // SLICE)
        return SLICE_EVERY_S if self._new else max(SLICE_EVERY_S, self.valid_ms / 2_000 / max(1, slices))
