"""Choose the lanes that a worker attaches to if it cannot attach to all: a rotating working set. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from heapq import nsmallest
from itertools import islice
from operator import attrgetter

from dispatcher.model.tier import MILLI, TIERS, Tier
from dispatcher.scheduling.sharing import share_out


class LaneNeed(IntEnum):
    """How much a lane needs this worker; lower values come first. FIRST: this worker is the lane's first holder."""

    BUSY_FIRST = 0
    BUSY = 1
    IDLE_FIRST = 2
    IDLE = 3


@dataclass(frozen=True, kw_only=True)
class RotationSettings:
    """Settings of the rotation. (Attaching takes 2 ms of a core, detaching about half of it.)"""

    max_lanes: int = 1_000
    """Maximum lanes attached at once."""
    reserve: int = 10
    """1/reserve of max_lanes may be attached on top of it, for new lanes (until the next rotation)."""
    attach_at_once: int = 200
    """Maximum lanes added by one choice."""
    hold_s: float = 2.0
    """A lane stays attached for this long, unless it has nothing to send."""
    swap_part: int = 4
    """1/swap_part of the lanes, 2 to `swaps`, are exchanged in one rotation."""
    swaps: int = 64


@dataclass(slots=True, eq=False)
class Candidate:
    """A lane that may be attached."""

    name: str
    need: LaneNeed = LaneNeed.IDLE
    tier: Tier = Tier.HIGH
    weight: int = MILLI
    chunk: int = 1
    time: float = 0.0
    """Targets sent per weight, as seen by this worker."""
    since_s: float = 0.0
    """When it was attached."""


class LaneRotation:
    """Chooses the lanes to attach to."""

    def __init__(self, settings: RotationSettings) -> None:
        self.chosen: dict[str, Candidate] = {}
        """The lanes to attach to, by name."""
        self.more = False
        """True if some lanes were left for the next choice, to limit how many are attached at once."""
        self.changed = False
        """True if, since the last choice, a lane was added or removed, or its need of this worker changed."""
        self._settings = settings
        self._by_need: dict[LaneNeed, dict[str, Candidate]] = {need: {} for need in LaneNeed}
        self._all: dict[str, Candidate] = {}
        self._arrived: list[Candidate] = []
        self._now: dict[Tier, float] = dict.fromkeys(TIERS, 0.0)
        """By tier: the time of the lane that is furthest behind."""

    # ------------------------------------------------------------- input
    def put(self, name: str, need: LaneNeed, tier: Tier, weight: int, chunk: int) -> None:
        """Add or change a lane that may be attached. A lane that was idle, or in another tier, starts at its tier's
        current time: it neither waits for the others nor catches up on the past."""
        lane = self._all.get(name)
        if lane is None:
            lane = self._all[name] = Candidate(name)
        elif lane.need == need and lane.tier == tier:
            lane.weight, lane.chunk = max(1, weight), chunk
            return
        else:
            self._by_need[lane.need].pop(name, None)
        if need <= LaneNeed.BUSY and (lane.need > LaneNeed.BUSY or lane.tier != tier):
            lane.time = max(lane.time, self._now[tier]) if lane.tier == tier else self._now[tier]
            self._arrived.append(lane)
        lane.need, lane.tier, lane.weight, lane.chunk = need, tier, max(1, weight), chunk
        self._by_need[need][name] = lane
        self.changed = True

    def drop(self, name: str) -> None:
        """Remove a lane that may not be attached (any more)."""
        lane = self._all.pop(name, None)
        if lane is not None:
            del self._by_need[lane.need][name]
            self.changed = True

    def served(self, name: str, targets: int) -> None:
        """Count targets of the lane that any worker has sent."""
        lane = self._all.get(name)
        if lane is not None and targets > 0:
            lane.time += targets * MILLI / lane.weight

    @property
    def crowded(self) -> bool:
        """Whether lanes with something to send must take turns."""
        return self._count(LaneNeed.BUSY_FIRST, LaneNeed.BUSY) > self._settings.max_lanes

    def waiting(self) -> Iterable[str]:
        """Return unattached lanes with something to send whose first holder is this worker."""
        busy = self._by_need[LaneNeed.BUSY_FIRST]
        if len(busy) <= self._settings.max_lanes and not self.more:
            return ()
        return [name for name in busy if name not in self.chosen]

    def _count(self, *needs: LaneNeed) -> int:
        return sum(len(self._by_need[need]) for need in needs)

    # ------------------------------------------------------------- choice
    def choose(self, now_s: float, *, rotate: bool) -> bool:
        """Choose the lanes again. Return whether the choice changed. `rotate`: lanes with something to send take turns
        now."""
        self.changed = False
        chosen: dict[str, Candidate] = {}
        for need in LaneNeed:
            pool, room = self._by_need[need], self._settings.max_lanes - len(chosen)
            if len(pool) <= room:
                chosen.update(pool)
            elif room > 0 and rotate and need <= LaneNeed.BUSY:
                chosen.update(self._turns(pool, room, now_s))
            elif room > 0 or need == LaneNeed.BUSY_FIRST:
                chosen.update(self._as_before(need, room))
        self._arrived.clear()
        return self._take(chosen, now_s)

    def _take(self, chosen: Mapping[str, Candidate], now_s: float) -> bool:
        before = self.chosen
        added = [lane for name, lane in chosen.items() if name not in before]
        deferred = added[self._settings.attach_at_once :]
        self.more = bool(deferred)
        if not added and len(chosen) == len(before):
            return False
        for lane in added:
            lane.since_s = now_s
        self.chosen = dict(chosen)
        for lane in deferred:
            del self.chosen[lane.name]
        return True

    def _as_before(self, need: LaneNeed, room: int) -> dict[str, Candidate]:
        """Keep attached lanes, then add new ones, then any others."""
        reserve = self._settings.max_lanes // self._settings.reserve if need <= LaneNeed.BUSY else 0
        attached = (lane for lane in self.chosen.values() if self._has(lane, need))
        kept = {lane.name: lane for lane in islice(attached, max(0, room + reserve))}
        for lane in self._arrived:
            if len(kept) < room + reserve and self._has(lane, need):
                kept[lane.name] = lane
        others = (lane for name, lane in self._by_need[need].items() if name not in kept)
        kept.update((lane.name, lane) for lane in islice(others, max(0, room - len(kept))))
        return kept

    def _has(self, lane: Candidate, need: LaneNeed) -> bool:
        return lane.need == need and self._all.get(lane.name) is lane

    def _turns(self, pool: Mapping[str, Candidate], room: int, now_s: float) -> dict[str, Candidate]:
        """Give every tier its part of the room. In each tier, the lanes furthest behind replace those ahead."""
        by_tier: dict[Tier, list[Candidate]] = {tier: [] for tier in TIERS}
        for lane in pool.values():
            by_tier[lane.tier].append(lane)
        tiers = [tier for tier in TIERS if by_tier[tier]]
        parts = share_out(room, [(len(by_tier[tier]), 1) for tier in tiers])
        chosen: dict[str, Candidate] = {}
        for tier, part in zip(tiers, parts, strict=True):
            lanes = by_tier[tier]
            self._now[tier] = max(self._now[tier], min(lane.time for lane in lanes))
            chosen.update((lane.name, lane) for lane in self._turns_of_tier(lanes, part, now_s))
        return chosen

    def _turns_of_tier(self, lanes: list[Candidate], part: int, now_s: float) -> list[Candidate]:
        attached = sorted((lane for lane in lanes if lane.name in self.chosen), key=attrgetter("time"))[:part]
        waiting = [lane for lane in lanes if lane.name not in self.chosen]
        settings = self._settings
        free = part - len(attached)
        swaps = max(2, min(settings.swaps, part // settings.swap_part))
        first = nsmallest(free + swaps, waiting, key=attrgetter("time"))
        leaving = [lane for lane in reversed(attached) if now_s - lane.since_s >= settings.hold_s]
        pairs = zip(first[free:], leaving[:swaps], strict=False)
        swapped = {out.name: into for into, out in pairs if out.time - into.time > _margin(out)}
        return first[:free] + [swapped.get(lane.name, lane) for lane in attached]


def _margin(lane: Candidate) -> float:
    """Return the lead that a lane needs before it is replaced: one envelope."""
    return lane.chunk * MILLI / lane.weight
