"""Which workers hold a lane: rendezvous hashing. Every worker comes to the same answer from the names alone, and when
one comes or goes only the lanes move that it holds."""

from collections.abc import Sequence
from dataclasses import dataclass

from dispatcher.wire.topics import stable_hash

NOWHERE = 1 << 30
"""The place of a worker that is none of those there are."""
_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class DivisionSettings:
    """least: holders of every lane, so that none is without one when a worker dies. lanes_each: as long as there are
    not more lanes than this for each worker, all hold more of them, up to all. targets_each: a lane gets another
    holder for each so many targets that are pending, since one worker alone may not be quick enough."""

    least: int = 2
    lanes_each: int = 200
    targets_each: int = 20_000


class Division:
    """Places of the workers at each lane."""

    def __init__(self, workers: Sequence[str], me: str) -> None:
        """me: one of the workers, or none of them (then it holds nothing)."""
        self.workers = tuple(sorted(set(workers)))
        self._mine = stable_hash(me) if me in self.workers else None
        self._others = [stable_hash(worker) for worker in self.workers if worker != me]

    def place(self, lane_hash: int) -> int:
        """How many workers come before this one at the lane (given by `stable_hash` of its name): 0 for its first
        holder, and so on; NOWHERE if it is not there."""
        if self._mine is None:
            return NOWHERE
        mine = _mixed(self._mine ^ lane_hash)
        return sum(_mixed(other ^ lane_hash) > mine for other in self._others)

    def holders(self, lanes: int, settings: DivisionSettings) -> int:
        """How many workers hold a lane at least, if there are so many lanes."""
        workers = len(self.workers)
        return max(min(settings.least, workers), min(workers, settings.lanes_each * workers // max(1, lanes)))


def holders_for(pending: int, settings: DivisionSettings) -> int:
    """How many workers should hold a lane in which so many targets are pending, whatever the number of lanes."""
    return settings.least + pending // settings.targets_each


class RoughCount:
    """A number that follows another only when that has moved by half or has doubled, so that what depends on it is
    seldom decided anew."""

    def __init__(self) -> None:
        self.value = 0

    def follow(self, count: int) -> bool:
        """Whether the value changed."""
        if self.value / 2 <= count <= self.value * 1.25:
            return False
        changed, self.value = self.value != count, count
        return changed


def _mixed(value: int) -> int:
    """The finalizer of splitmix64: every bit of the argument tells in every bit of the result."""
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & _MASK
    return value ^ (value >> 31)
