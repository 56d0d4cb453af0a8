"""Assign lanes to workers by rendezvous hashing.

Every worker computes the same result from the names alone. When a worker joins or leaves, only its own lanes move.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dispatcher.wire.topics import stable_hash

NOWHERE = 1 << 30
"""The position of a worker that is not in the list."""
_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class DivisionSettings:
    """Settings for the number of holders of a lane."""

    min_holders: int = 2
    """Minimum holders of every lane, so that a lane still has one when a worker dies."""
    lanes_each: int = 200
    """Target number of lanes per worker. With few lanes, each lane has more holders than `min_holders`."""
    targets_each: int = 20_000
    """A lane gets another holder per this number of pending targets, since one worker alone may be too slow."""


class Division:
    """The order of the workers at each lane, from which every worker computes whether it holds the lane."""

    def __init__(self, workers: Sequence[str], me: str) -> None:
        """`me` is one of the workers, or none of them (then it holds nothing)."""
        self.workers = tuple(sorted(set(workers)))
        self._mine = stable_hash(me) if me in self.workers else None
        self._others = [stable_hash(worker) for worker in self.workers if worker != me]

    def position(self, lane_hash: int) -> int:
        """Return this worker's position among the holders of a lane, 0 for the first; NOWHERE if it is not in the list.
        `lane_hash` is the `stable_hash` of the lane's name."""
        if self._mine is None:
            return NOWHERE
        mine = _mixed(self._mine ^ lane_hash)
        return sum(_mixed(other ^ lane_hash) > mine for other in self._others)

    def holders(self, lanes: int, settings: DivisionSettings) -> int:
        """Return the minimum number of holders of a lane, if there are `lanes` lanes."""
        workers = len(self.workers)
        return max(min(settings.min_holders, workers), min(workers, settings.lanes_each * workers // max(1, lanes)))


def holders_for(pending: int, settings: DivisionSettings) -> int:
    """Return how many workers should hold a lane with `pending` targets, for any number of lanes."""
    return settings.min_holders + pending // settings.targets_each


class RoughCount:
    """A copy of a count that changes only when the count has halved or grown by a quarter.

    So decisions based on it are rarely repeated.
    """

    def __init__(self) -> None:
        self.value = 0

    def follow(self, count: int) -> bool:
        """Update the value if the count has changed enough. Return whether it changed."""
        if self.value / 2 <= count <= self.value * 1.25:
            return False
        changed, self.value = self.value != count, count
        return changed


def _mixed(value: int) -> int:
    """Apply the finalizer of splitmix64: every bit of the argument affects every bit of the result."""
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & _MASK
    return value ^ (value >> 31)
