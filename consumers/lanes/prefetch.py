"""Decide how many envelopes each lane's consumer may prefetch: queues paid for from one budget of targets."""

from dataclasses import dataclass

from dispatcher.model.tier import DEFAULT_TIER_WEIGHTS, Tier
from dispatcher.ports import LaneInfo
from dispatcher.scheduling.read_ahead import largest_batch

ENVELOPE_COST = 8
"""The memory of an envelope besides its targets, in targets (about 1 kB of client objects and message)."""
_BUDGET_PARTS = 4
"""A lane gets at most 1/_BUDGET_PARTS of the remaining budget, so that later lanes get a part too."""
_EVEN_WEIGHT, _MAX_WEIGHT = 2_000, max(DEFAULT_TIER_WEIGHTS.values())
"""Tier weights in thousandths: that of a lane whose queue is not scaled, and the largest. Without a capacity the
broker's delivery may set the pace, which then follows the queues; equal queues would give low a fifth."""
RESIZE_FACTOR = 4
"""A queue is replaced only if the best size differs by more than this factor."""


@dataclass(frozen=True)
class PrefetchSettings:
    """Sizes of the queues. Tiers scale `least_queue` and `largest_queue`."""

    budget_targets: int = 400_000
    """Budget for the queues of all lanes together."""
    producer_batch: int = 100
    """Maximum envelopes in a producer's batch; batches of large envelopes are smaller."""
    batches: int = 4
    """Minimum producer batches in a queue, where the budget allows it."""
    min_queue: int = 24
    """Minimum envelopes in a queue, where the budget allows it (three times as many in the high tier, half as many in
    low)."""
    max_queue: int = 4_000
    """Maximum envelopes in a queue (half of this in medium, a sixth in low)."""


class PrefetchBudget:
    """Shares the budget between lanes. Every lane gets at least one producer batch.

    Permits count messages, but a batch is delivered as a whole. So a smaller queue runs empty between batches
    (measured: a tenth of the rate).
    """

    def __init__(self, settings: PrefetchSettings) -> None:
        self._settings = settings
        self._costs: dict[str, int] = {}
        self._spent = 0

    @property
    def spent_targets(self) -> int:
        """Targets that all queues together may hold."""
        return self._spent

    def take(self, lane: LaneInfo, prefetch_targets: int) -> int:
        """Return the lane's queue size in envelopes and charge it to the budget.

        With `prefetch_targets` 0 (the lane is known to hold little or nothing) it gets one producer batch, which is not
        charged.
        """
        queue = self.affordable_queue(lane, prefetch_targets)
        self.give_back(lane.name)
        self._costs[lane.name] = queue * _cost(lane) if prefetch_targets else 0
        self._spent += self._costs[lane.name]
        return queue

    def give_back(self, lane: str) -> None:
        self._spent -= self._costs.pop(lane, 0)

    def affordable_queue(self, lane: LaneInfo, prefetch_targets: int) -> int:
        """Return the queue size that `take` would return."""
        batch = self._batch(lane)
        if not prefetch_targets:
            return batch
        settings = self._settings
        queue = max(batch * settings.batches, settings.min_queue, prefetch_targets // max(1, lane.chunk))
        queue = min(queue, settings.max_queue * _EVEN_WEIGHT // _MAX_WEIGHT)
        queue = max(2 * batch, queue * DEFAULT_TIER_WEIGHTS[Tier(lane.tier)] // _EVEN_WEIGHT)
        remaining = settings.budget_targets - self._spent + self._costs.get(lane.name, 0)
        return max(batch, min(queue, settings.max_queue, remaining // (_BUDGET_PARTS * _cost(lane))))

    def _batch(self, lane: LaneInfo) -> int:
        """Return the number of envelopes in a producer's batch."""
        return min(self._settings.producer_batch, largest_batch(lane.chunk))


def _cost(lane: LaneInfo) -> int:
    """Return the cost of one envelope, in targets."""
    return max(1, lane.chunk) + ENVELOPE_COST


def too_different(queue: int, best: int) -> bool:
    """Return whether a queue should be replaced by one of the size `best`."""
    return queue * RESIZE_FACTOR < best or best * RESIZE_FACTOR < queue
