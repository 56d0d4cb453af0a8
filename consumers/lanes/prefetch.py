"""How many envelopes each lane's consumer may hold ahead of time: receiver queues, paid from one budget of targets."""

from dataclasses import dataclass

from dispatcher.model.tier import DEFAULT_TIER_WEIGHTS, Tier
from dispatcher.ports import LaneInfo
from dispatcher.scheduling.read_ahead import largest_batch

ENVELOPE_COST = 8
"""Targets' worth of memory that an envelope takes besides its targets (about 1 kB of client objects and message)."""
_PART = 4
"""A lane gets at most one part in so many of what is left, so that those who come later find something."""
_MIDDLING, _MOST = 2_000, max(DEFAULT_TIER_WEIGHTS.values())
"""Tier weights, in thousandths: of a lane that gets just what it wants, and the largest. With no capacity set the
broker's delivering may set the pace: it then follows the queues, so that equal ones would let low have a fifth."""
RESIZE_FACTOR = 4
"""A queue is exchanged for another only if the wanted size differs by more than this."""


@dataclass(frozen=True)
class PrefetchSettings:
    """budget_targets: for the queues of all lanes together. producer_batch: the largest batch a producer
    makes (fewer of large envelopes). Where the budget allows, a queue fits `batches` of them and `least_queue`
    envelopes (three times as many in the high tier, half as many in low); it never fits more than `largest_queue`
    (half of that in medium, a sixth in low)."""

    budget_targets: int = 400_000
    producer_batch: int = 100
    batches: int = 4
    least_queue: int = 24
    largest_queue: int = 4_000


class PrefetchBudget:
    """Shares the budget between lanes. Nobody gets less than one producer batch: permits count messages, but a batch is
    delivered whole, so a smaller queue starves between batches (measured: a tenth of the rate)."""

    def __init__(self, settings: PrefetchSettings) -> None:
        self._settings = settings
        self._costs: dict[str, int] = {}
        self._spent = 0

    @property
    def spent_targets(self) -> int:
        """What all queues together may hold."""
        return self._spent

    def take(self, lane: LaneInfo, wanted_targets: int) -> int:
        """Returns the lane's queue size in envelopes and charges it to the budget. A lane for which nothing is wanted,
        since it is known to hold little or nothing, gets one producer batch, free of charge."""
        queue = self.affordable_queue(lane, wanted_targets)
        self.give_back(lane.name)
        self._costs[lane.name] = queue * _cost(lane) if wanted_targets else 0
        self._spent += self._costs[lane.name]
        return queue

    def give_back(self, lane: str) -> None:
        self._spent -= self._costs.pop(lane, 0)

    def affordable_queue(self, lane: LaneInfo, wanted_targets: int) -> int:
        """The queue `take` would return."""
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
        """Envelopes in a producer's batch."""
        return min(self._settings.producer_batch, largest_batch(lane.chunk))


def _cost(lane: LaneInfo) -> int:
    """Of one envelope, in targets."""
    return max(1, lane.chunk) + ENVELOPE_COST


def too_different(queue: int, wanted: int) -> bool:
    """Whether a queue should be exchanged for one of the wanted size."""
    return queue * RESIZE_FACTOR < wanted or wanted * RESIZE_FACTOR < queue
