"""Pace the requests of capped flows at the provider's door.

The ledger grants a cap's targets ahead of time and says from when they may be sent. The grants of all workers follow
each other on one time line, at the rate of the cap. Each worker sends its grants evenly, and what a stall leaves behind
is not made up for. So the provider sees no more than the cap in any time, however many workers there are and whatever
stops.
"""

from collections.abc import Iterable
from typing import NamedTuple

from dispatcher.model.pools import WINDOW_S
from dispatcher.wire.lease import Pace

BURST_S = 0.03
"""Requests that the rate allows in this time may leave at once; timers are late by some milliseconds. What a longer
stall leaves behind is lost."""
KEPT_S = 3.0
"""How long after its last grant a flow is known to be paced."""
NEVER_S = float("inf")
ENOUGH = 1.0 - 1e-6
"""A request leaves from this on: sums of parts of one may miss it by a little."""
STALL_S = 0.25
"""Neither answers for this long, nor answers that take as much longer than usual, are seen from a provider that works.
"""
MAX_POOLS = 1_000
"""Pools of a worker. Beyond it, those that no flow uses are forgotten."""


class _Grant(NamedTuple):
    """Targets or requests to be sent evenly between two monotonic times."""

    start_s: float
    end_s: float
    rate: float

    def allowed(self, from_s: float, to_s: float) -> float:
        """Return how many may be sent between two times."""
        return max(0.0, min(to_s, self.end_s) - max(from_s, self.start_s)) * self.rate


class Door:
    """The grants of one pool to this worker, in what its cap counts: targets or requests.

    Times are monotonic and never go back.
    """

    def __init__(self, *, by_request: bool = False) -> None:
        self.by_request = by_request
        """Whether the cap counts requests."""
        self.end_s = 0.0
        """End of the last grant."""
        self.cap = 0
        """The cap of the last grant, a second; 0 once it was removed."""
        self.used = 0
        """Targets or requests that have left so far."""
        self.lost = 0.0
        """Granted, and not used in its time: this worker stalled, or had nothing to send."""
        self._grants: list[_Grant] = []
        self._tokens = 0.0
        self._now_s = 0.0

    def allot(self, count: int, start_s: float, spread_s: float) -> None:
        """Add a grant. Of a part that lies in the past, no more counts than after a stall."""
        grant = _Grant(start_s, start_s + spread_s, count / spread_s)
        self._grants.append(grant)
        self.end_s = max(self.end_s, grant.end_s)
        self._fill(grant.allowed(0.0, self._now_s))

    def wait_s(self, now_s: float) -> float:
        """Return the seconds until the next request may leave; 0: now. NEVER_S: nothing is granted."""
        if now_s > self._now_s:
            gained = sum([grant.allowed(self._now_s, now_s) for grant in self._grants])
            self._now_s = now_s
            self._fill(gained)
            self._grants = [grant for grant in self._grants if grant.end_s > now_s]
        if self._tokens >= ENOUGH:
            return 0.0
        rate = self._rate(now_s)
        if rate:
            return (1.0 - self._tokens) / rate
        return min([grant.start_s - now_s for grant in self._grants], default=NEVER_S)

    def leave(self, cost: int = 1) -> None:
        """Record that a request leaves, after `wait_s` returned 0. A cost beyond 1 is a debt: the next one waits until
        it is paid."""
        self.used += cost
        self._tokens -= cost

    def pay(self, cost: int) -> None:
        """Note requests that left some time ago, and reach the provider now."""
        self._tokens -= cost

    def left(self, now_s: float) -> float:
        """Return how much may still leave under the grants so far."""
        return self._tokens + sum([grant.allowed(now_s, NEVER_S) for grant in self._grants])

    def _fill(self, gained: float) -> None:
        if gained:
            limit = max(1.0, self._rate(self._now_s) * BURST_S)
            self.lost += max(0.0, self._tokens + gained - limit)
            self._tokens = min(self._tokens + gained, limit)

    def _rate(self, now_s: float) -> float:
        return sum([grant.rate for grant in self._grants if grant.start_s <= now_s < grant.end_s])


class Load(NamedTuple):
    """Requests that leave together, and their targets."""

    targets: int = 1
    requests: int = 1

    def plus(self, other: "Load | None") -> "Load":
        """Return both together."""
        return self if other is None else Load(self.targets + other.targets, self.requests + other.requests)


ONE = Load()


class StallWatch:
    """Notices a provider that was stopped, or out of reach, for a moment: all that left meanwhile reaches it at once.

    Holds the requests of one channel or flow that left since the last answer. Times are monotonic.
    """

    def __init__(self) -> None:
        self._left: dict[str, Load] = {}
        """By flow."""
        self._answered_s = 0.0

    def left(self, flow: str, load: Load) -> None:
        """Note requests that leave."""
        self._left[flow] = load.plus(self._left.get(flow))

    def answered(self, took_s: float, usual_s: float, now_s: float) -> dict[str, Load]:
        """Note an answer. Return what left during a stall that it ends, by flow.

        A stall of ours is none: nothing left during it.
        """
        is_stall = now_s - self._answered_s > STALL_S and took_s > usual_s + STALL_S
        left, self._answered_s = self._left, now_s
        self._left = {}
        return left if is_stall else {}


class Doors:
    """The doors of a worker's flows. Not safe for threads."""

    def __init__(self) -> None:
        self.by_pool: dict[str, Door] = {}
        self._pools: dict[str, dict[str, float]] = {}
        """By flow: its pools, with the time until which they count."""

    def allot(self, paces: Iterable[Pace], flows: Iterable[str], carried_out_s: float) -> None:
        """Add grants that the ledger made in one call at this monotonic time.

        flows: all to which it granted something. Their pools without a pace have no such cap any more.
        """
        for flow in flows:
            for pool in self._pools.pop(flow, ()):
                self.by_pool[pool].cap = 0  # until the next pace
        for pace in paces:
            door = self._door(pace)
            spread_s = max(WINDOW_S, pace.count / pace.rate)
            door.allot(pace.count, carried_out_s + pace.delay_us / 1_000_000, spread_s)
            self._pools.setdefault(pace.flow, {})[pace.pool] = door.end_s + KEPT_S

    @property
    def any_paced(self) -> bool:
        """Whether any flow has passed a door lately. May be read from any thread."""
        return bool(self._pools)

    def is_paced(self, flow: str, now_s: float) -> bool:
        """Return whether requests of the flow must pass a door."""
        pools = self._pools.get(flow)
        if not pools:
            return False
        for pool in [pool for pool, until_s in pools.items() if until_s <= now_s]:
            del pools[pool]
        if not pools:
            del self._pools[flow]
        return bool(pools)

    def wait_s(self, flow: str, now_s: float, load: Load = ONE) -> float:
        """Return the seconds until the flow's next request may leave; 0: it leaves now. NEVER_S: nothing is granted."""
        doors = self._of(flow)
        wait_s = max([door.wait_s(now_s) for door in doors], default=NEVER_S)
        if wait_s <= 0.0:
            for door in doors:
                door.leave(_cost(door, load))
        return wait_s

    def left(self, flow: str, now_s: float) -> float:
        """Return how much of the flow may still leave under the grants so far."""
        return min([door.left(now_s) for door in self._of(flow)], default=0.0)

    def stalled(self, flow: str, load: Load) -> None:
        """Record that this much has left while the provider was stopped. It reaches it now, so others wait."""
        for door in self._of(flow):
            door.pay(_cost(door, load))

    def _of(self, flow: str) -> list[Door]:
        return [self.by_pool[pool] for pool in self._pools.get(flow, ())]

    def _door(self, pace: Pace) -> Door:
        door = self.by_pool.get(pace.pool)
        if door is None or door.by_request != pace.by_request:
            if len(self.by_pool) >= MAX_POOLS:
                self._forget_unused()
            door = self.by_pool[pace.pool] = Door(by_request=pace.by_request)
        door.cap = pace.rate
        return door

    def _forget_unused(self) -> None:
        """Forget the pools that no flow names any more."""
        named = {pool for pools in self._pools.values() for pool in pools}
        self.by_pool = {pool: door for pool, door in self.by_pool.items() if pool in named}
        self._pools = {flow: pools for flow, pools in self._pools.items() if pools}


def _cost(door: Door, load: Load) -> int:
    return load.requests if door.by_request else load.targets
