"""A state of the world around two workers, and a step from one state to the next."""

from typing import Any, NamedTuple

OUTCOME, ENDED, CLOSE, MARK, TRUTH = range(5)
"""Entries of the outcome topic: (OUTCOME, record, worker, number), (ENDED, worker, number), (CLOSE,), (MARK, epoch);
and (TRUTH, outcomes by target) for all entries before."""
UNRECORDED = 0
"""In ENDED, instead of a number: the worker's outcomes of claims before this view have been recorded."""
REBUILT = 1
"""Epoch of every view after the first: marks of those before are taken out of the topic, for nothing reads them."""
Place = tuple[int, int]
"""Lane and envelope, by number."""
LIMBO = 100
"""Added to the lane of what a worker still attached to it has lost sight of: the broker gives it to nobody."""
Held = tuple[int, int, bool]
"""Lane and envelope of a delivery, and whether the broker still has it as ours."""


class Hands(NamedTuple):
    """One worker. held: its deliveries. late: claims (bits by number) whose use-by has passed. old: claims of a view
    that is gone. unrecorded: calls (bits) made whose record is not stored. reports: whether its heartbeats report them,
    because their records are late."""

    state: int
    held: tuple[Held, ...] = ()
    late: int = 0
    old: int = 0
    unrecorded: int = 0
    reports: bool = False


class WorldState(NamedTuple):
    """control: the control topic; known: how many of its records the view has read. waiting: whether claims of before
    this epoch may still be in use; marked: whether the control topic's mark is still to be read. called: calls of the
    provider that were made (bits); excused: those that may come twice. accepted: targets (bits). left: faults."""

    one: Hands
    two: Hands
    view: int
    lane: tuple[Place, ...]
    acked: tuple[Place, ...]
    done: tuple[Any, ...]
    rest: tuple[Any, ...]
    control: tuple[str, ...]
    known: int
    epoch: int
    waiting: bool
    marked: bool
    acknowledged: bool
    deleted: bool
    called: int
    excused: int
    accepted: int
    left: int

    def hands(self, worker: int) -> Hands:
        return self.two if worker else self.one

    def with_hands(self, worker: int, hands: Hands) -> "WorldState":
        return self._replace(two=hands) if worker else self._replace(one=hands)


class Step(NamedTuple):
    """label: what happened, in parts. fault: whether it is one. wrong: the law it breaks."""

    label: tuple[Any, ...]
    fault: bool
    world: WorldState
    wrong: str = ""
