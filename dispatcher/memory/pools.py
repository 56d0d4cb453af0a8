"""Sharing one capacity between tiers and lanes, in integers. quotas/lua/pools.lua does the same arithmetic in Redis.

Quantities in buckets are millionths of a target (UNIT), so that targets/s times microseconds needs no rounding. Virtual
times are millionths of a target per thousandth of weight; what a division leaves over is carried to the next charge.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dispatcher.tier import TIERS

TOTAL = "total"
"""The pool all lanes share."""
UNIT = 1_000_000
WINDOW_US = 250_000
"""What the buckets of a pool hold together, as time at its capacity."""
RESERVE_PART = 5
"""A tier without demand keeps this part of its window for the moment it wakes."""
QUANTA = 8
"""A lane is granted at least one envelope at a time, and about this part of its window."""
LONGEST_WAIT_WINDOWS = 2_400
"""What lanes miss while nobody holds them is owed to them up to this: ten minutes."""
LARGEST = 1 << 50
"""Numbers stay below this, so that Lua's doubles hold them exactly."""


@dataclass(slots=True)
class TierPool:
    """A tier's part of a pool. depth: what the bucket may hold. time, carry: virtual time of the tier. busy: summed
    weight of the lanes with demand that are held. wanted: announced demand in targets. waiting: summed weight of the
    lanes with demand that nobody is attached to. pull: what lanes lag that were taken up in this call, in the mean of
    the tier."""

    bucket: int = 0
    depth: int = 0
    time: int = 0
    carry: int = 0
    busy: int = 0
    wanted: int = 0
    waiting: int = 0
    pull: int = 0

    @property
    def window(self) -> int:
        """How far ahead of its tier a lane may be, in virtual time."""
        return self.depth // self.busy if self.busy > 1 else self.depth


@dataclass(slots=True)
class LaneTime:
    """Where a lane stands in a pool: its virtual time within its tier. owed: by how much more than a window it may lag,
    for the time in which it had backlog and nobody held it. spare: of late it drew what its peers leave."""

    tier: str
    time: int = 0
    carry: int = 0
    owed: int = 0
    spare: bool = False


def depth_of(rate: int, burst: int) -> int:
    """What the buckets of a cap (targets/s, and targets) hold, in millionths of a target; 0: a quarter of a second."""
    return burst * UNIT if burst else max(rate * WINDOW_US, UNIT)


def portion(amount: int, part: int, whole: int) -> int:
    """amount * part / whole, rounded down. (Lua multiplies the quotient and the rest apart, to stay exact.)"""
    return amount * part // whole


def pour(amount: int, levels: dict[str, int], limits: Mapping[str, int], weights: Mapping[str, int]) -> int:
    """Shares an amount between levels by weight, none above its limit; what one cannot take goes to the others at once,
    as does what stands above a limit already. Returns what found no room."""
    for tier in TIERS:
        if levels[tier] > limits[tier]:
            amount += levels[tier] - limits[tier]
            levels[tier] = limits[tier]
    while amount > 0:
        open_tiers = [tier for tier in TIERS if levels[tier] < limits[tier]]
        if not open_tiers:
            break
        total, left = sum([weights[tier] for tier in open_tiers]), amount
        for tier in open_tiers:
            part, room = portion(amount, weights[tier], total), limits[tier] - levels[tier]
            part = part if part < room else room
            levels[tier] += part
            left -= part
        if left == amount:
            levels[open_tiers[0]] += 1
            left -= 1
        amount = left
    return amount


@dataclass(slots=True)
class Pool:
    """A cap that lanes share: a bucket per tier, refilled by weight, and the lanes' virtual times.

    A tier's bucket is as deep as its demand, at least a fifth of its share of the window; all together are one window.
    So what a tier does not want is not kept from the others, and a lull saves up no more than one window.
    """

    capacity: int
    """Until the next refill, the lowest since the last one."""
    refilled_us: int
    burst: int = 0
    tiers: dict[str, TierPool] = field(default_factory=lambda: {tier: TierPool() for tier in TIERS})
    lanes: dict[str, LaneTime] = field(default_factory=dict)

    def refill(self, now_us: int, capacity: int, burst: int, weights: Mapping[str, int]) -> None:
        """Brings the buckets to the present; from now on, where the clock stepped back. weights: of the tiers."""
        rate = min(self.capacity, capacity)
        self.capacity, self.burst = capacity, burst
        elapsed_us = min(max(now_us - self.refilled_us, 0), LARGEST // rate)
        self.refilled_us = now_us
        depths = self._depths(weights)
        levels = {tier: share.bucket for tier, share in self.tiers.items()}
        pour(elapsed_us * rate, levels, depths, weights)
        for tier, share in self.tiers.items():
            share.bucket, share.depth = levels[tier], depths[tier]
        if max([share.time for share in self.tiers.values()]) > LARGEST:
            self._rebase()

    def _depths(self, weights: Mapping[str, int]) -> dict[str, int]:
        window, total = depth_of(self.capacity, self.burst), sum([weights[tier] for tier in TIERS])
        limits: dict[str, int] = {}
        for tier, share in self.tiers.items():
            reserve = portion(window, weights[tier], total) // RESERVE_PART
            limits[tier] = max(reserve, min(share.wanted * UNIT, window))
        depths: dict[str, int] = dict.fromkeys(TIERS, 0)
        left = pour(window, depths, limits, weights)
        return {tier: depths[tier] + portion(left, weights[tier], total) for tier in TIERS}

    def _rebase(self) -> None:
        """Times begin at 0 again: lanes lose what they are ahead or behind, which is a window."""
        self.lanes.clear()
        for tier in TIERS:
            self.tiers[tier].time = 0

    def enter(self, lane: str, tier: str, weight: int, idle: bool, waited: bool) -> None:
        """A lane asks. One that was idle (or was in another tier) starts at the tier's present time, or stays where it
        is ahead of it; one that lags is owed at most a window, and what it lagged more when it was taken up, if it
        waited with nobody to hold it."""
        share, entry = self.tiers[tier], self.lanes.get(lane)
        if entry is None or entry.tier != tier:
            entry = self.lanes[lane] = LaneTime(tier, share.time)
        window = share.window
        lag = max(share.time - window - entry.time, 0)
        if waited:
            lag = min(lag, LONGEST_WAIT_WINDOWS * window)
            share.pull += portion(lag + window, weight, max(share.busy, weight)) if lag else 0
            entry.owed = lag
        elif idle:
            entry.owed = 0
        elif entry.owed > lag:
            entry.owed = lag
        floor = share.time if idle else share.time - window - entry.owed
        if entry.time < floor:
            entry.time, entry.carry = floor, 0
        entry.spare = False

    def settle_in(self) -> None:
        """After all lanes of a call have entered: the tier's time is that of its lanes in the mean, so those that come
        from far behind draw it back, and the others wait until they have caught up."""
        for share in self.tiers.values():
            share.time -= share.pull
            share.pull = 0

    def is_ahead(self, lane: str, tier: str) -> bool:
        """Whether the lane has had more than its tier's present time."""
        entry = self.lanes.get(lane)
        return entry is not None and entry.time > self.tiers[tier].time

    def spares(self, tier: str) -> bool:
        """Whether the bucket stands half full: the lanes that share it are not using their part."""
        share = self.tiers[tier]
        return share.bucket > 0 and 2 * share.bucket >= share.depth

    def allows(self, lane: str, tier: str) -> bool:
        """Whether the lane may draw now. Ahead by more than a window it may only while the bucket stands half full: its
        peers are not using their part then."""
        share, entry = self.tiers[tier], self.lanes[lane]
        if share.bucket <= 0:
            return False
        return entry.time <= share.time + share.window or 2 * share.bucket >= share.depth

    def quantum(self, tier: str, weight: int) -> int:
        """Targets a lane of this weight is granted at once (at least one envelope, whatever this says)."""
        share = self.tiers[tier]
        return min(share.bucket, portion(share.depth, weight, max(share.busy, weight)) // QUANTA) // UNIT

    def charge(self, lane: str, tier: str, weight: int, targets: int) -> None:
        """Takes what was granted. The bucket may go below zero by less than one envelope. The tier's time moves on by
        its part of it; before that, where the lane draws what its peers leave, so far that the lane is ahead by a
        window only: for that it does not owe them. (By all that such a lane draws the tier's time must not move: with
        envelopes larger than windows those behind would lose their turn for one late call.)"""
        share, entry = self.tiers[tier], self.lanes[lane]
        entry.spare = entry.time > share.time + share.window
        if entry.spare:
            share.time = entry.time - share.window
        among = max(share.busy, weight)
        share.bucket -= targets * UNIT
        ahead, entry.carry = divmod(targets * UNIT + entry.carry, weight)
        entry.time += ahead
        ahead, share.carry = divmod(targets * UNIT + share.carry, among)
        share.time += ahead

    def refund(self, lane: str, tier: str, weight: int, targets: int) -> None:
        """Takes back what was granted and not used; a bucket does not rise above its depth by it."""
        share, entry = self.tiers[tier], self.lanes.get(lane)
        share.bucket = min(share.bucket + targets * UNIT, max(share.bucket, share.depth))
        if entry is not None and entry.tier == tier and weight:
            entry.time -= targets * UNIT // weight


@dataclass(slots=True)
class Bucket:
    """A task's own cap, full at first."""

    level: int
    refilled_us: int
    rate: int
    """The lowest since the last refill, by which the time since then is credited: at a new, higher one it would be paid
    more than was allowed."""

    def refill(self, now_us: int, cap: int, burst: int) -> None:
        rate = min(self.rate, cap)
        elapsed_us = min(max(now_us - self.refilled_us, 0), LARGEST // rate)
        self.level = min(self.level + elapsed_us * rate, depth_of(cap, burst))
        self.refilled_us, self.rate = now_us, cap
