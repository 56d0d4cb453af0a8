"""The number of envelopes each lane's consumer may hold ahead of time: queues paid from one budget of targets."""

from dataclasses import dataclass

from dispatcher.model.tier import DEFAULT_TIER_WEIGHTS, Tier
from dispatcher.ports import LaneInfo
from dispatcher.scheduling.read_ahead import largest_batch

ENVELOPE_COST = 8
"""The memory of an envelope besides its targets, in targets (about 1 kB of client objects and message)."""
_PART = 4
"""A lane gets at most one part in this many of the remaining budget, so that lanes that come later get a part too."""
_MIDDLING, _MOST = 2_000, max(DEFAULT_TIER_WEIGHTS.values())
"""Tier weights in thousandths: of a lane that gets exactly the queue it wants, and the largest weight. With no capacity
set, the broker's delivery may set the pace. The pace then follows the queues, and equal queues would give low a
fifth."""
RESIZE_FACTOR = 4
"""A queue is replaced only if the wanted size differs by more than this factor."""


@dataclass(frozen=True)
class PrefetchSettings:
    """Sizes of the queues. Tiers scale `least_queue` and `largest_queue`."""

    budget_targets: int = 400_000
    """The budget for the queues of all lanes together."""
    producer_batch: int = 100
    """The largest batch a producer makes, in envelopes; batches of large envelopes are smaller."""
    batches: int = 4
    """Where the budget allows, a queue fits this many producer batches."""
    least_queue: int = 24
    """Where the budget allows, a queue fits this many envelopes (three times as many in the high tier, half as many in
    low)."""
    largest_queue: int = 4_000
    """A queue never fits more envelopes than this (half of this in medium, a sixth in low)."""


class PrefetchBudget:
    """Shares the budget between lanes. Every lane gets at least one producer batch.

    Permits count messages, but a batch is delivered whole, so a smaller queue starves between batches (measured: a
    tenth of the rate).
    """

    def __init__(self, settings: PrefetchSettings) -> None:
        self._settings = settings
        self._costs: dict[str, int] = {}
        self._spent = 0

    @property
    def spent_targets(self) -> int:
        """The number of targets that all queues together may hold."""
        return self._spent

    def take(self, lane: LaneInfo, wanted_targets: int) -> int:
        """Return the lane's queue size in envelopes and charge it to the budget.

        If nothing is wanted, because the lane is known to hold little or nothing, it gets one producer batch free of
        charge.
        """
        queue = self.affordable_queue(lane, wanted_targets)
        self.give_back(lane.name)
        self._costs[lane.name] = queue * _cost(lane) if wanted_targets else 0
        self._spent += self._costs[lane.name]
        return queue

    def give_back(self, lane: str) -> None:
        self._spent -= self._costs.pop(lane, 0)

    def affordable_queue(self, lane: LaneInfo, wanted_targets: int) -> int:
        """Return the queue size that `take` would return."""
        batch = self._batch(lane)
        if not wanted_targets:
            return batch
        settings = self._settings
        wanted = max(batch * settings.batches, settings.least_queue, wanted_targets // max(1, lane.chunk))
        wanted = min(wanted, settings.largest_queue * _MIDDLING // _MOST)
        wanted = max(2 * batch, wanted * DEFAULT_TIER_WEIGHTS[Tier(lane.tier)] // _MIDDLING)
        left = settings.budget_targets - self._spent + self._costs.get(lane.name, 0)
        return max(batch, min(wanted, settings.largest_queue, left // (_PART * _cost(lane))))

    def _batch(self, lane: LaneInfo) -> int:
        """Return the number of envelopes in a producer's batch."""
        return min(self._settings.producer_batch, largest_batch(lane.chunk))


def _cost(lane: LaneInfo) -> int:
    """Return the cost of one envelope, in targets."""
    return max(1, lane.chunk) + ENVELOPE_COST


def too_different(queue: int, wanted: int) -> bool:
    """Return whether a queue should be replaced by one of the wanted size."""
    return queue * RESIZE_FACTOR < wanted or wanted * RESIZE_FACTOR < queue
