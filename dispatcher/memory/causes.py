"""What a task's time goes to, counted while leases are asked for. quotas/lua/causes.lua does the same in Redis.

Twice a second at most (less often where lanes are many), whoever asks, the time since a task was counted last is given
to what holds it back at that moment: its own cap (`task_cap`), the pool that binds its lane (`cap:<pool>`), nobody who
holds its lane (`no_worker`), or nothing (`sending`: it got all that was asked for). Of a lane that the capacity itself
holds back, the time is divided as the capacity was: what other tiers had (`tier_share`), other apps (`app_weight`),
tasks (`task_weight`), and itself (`cap_total`). Time in which nobody asked is given to nothing, but for that between
one attempt and the next (`retry_wait`, and `provider`, the call before it).
"""

from collections import Counter
from collections.abc import Iterable

from dispatcher.lease import LaneKind
from dispatcher.memory.demand import APP_SCALE
from dispatcher.memory.pools import TOTAL, UNIT, Pool, portion
from dispatcher.memory.verdicts import GRANTABLE, NO_CREDIT, OWN, LaneCall, Segment
from dispatcher.memory.view import MemoryView
from dispatcher.tier import MILLI, TIERS

COUNT_EVERY_MS, COUNT_EVERY_AT_MOST_MS = 500, 2_500
"""By the lanes in a call: 2 ms each."""
COVERED_MS = 3_000
"""Within this a task that is held back is asked about again."""


def count_causes(view: MemoryView, lanes: list[LaneCall], waiting_ms: int) -> None:
    """Counts for every task of a call, after the capacity is shared."""
    counting = _Counting(view, min(max(2 * len(lanes), COUNT_EVERY_MS), COUNT_EVERY_AT_MOST_MS))
    for lane in lanes:
        if lane.parked:
            continue
        if lane.ask.kind == OWN:
            counting.own(lane, waiting_ms)
        else:
            counting.many(lane)


class _Counting:
    def __init__(self, view: MemoryView, every_ms: int) -> None:
        self._view = view
        self._every_ms = every_ms
        self._since_ms = view.counted_until_ms
        self._now_ms = view.now_ms()

    def _is_due(self, task: str) -> bool:
        return self._now_ms - self._since_ms.get(task, 0) >= self._every_ms

    def own(self, lane: LaneCall, waiting_ms: int) -> None:
        task = lane.name.rpartition("/")[2]
        if not self._is_due(task):
            return
        if lane.waiting and lane.ask.demand > 0:
            if not self._is_held(lane):
                self._count(task, lane, "no_worker", max(waiting_ms, COVERED_MS))
        elif lane.queue:
            self._count(task, lane, self._held_back_by(lane), COVERED_MS)
        elif _grantable(lane) or (not lane.ask.wants and lane.ask.demand > 0):
            self._count(task, lane, "sending", COVERED_MS)

    def _is_held(self, lane: LaneCall) -> bool:
        """Who announces a lane need not know that another worker holds it."""
        demand = self._view.demand.get(lane.name)
        return demand is not None and demand.held_until_ms > self._now_ms

    def many(self, lane: LaneCall) -> None:
        """What is left of the tasks in a lane of many is held back with the lane."""
        delay_ms = _delay_ms(lane)
        for segment in reversed(_grantable(lane)):
            task = segment.want.task
            if segment.waits != NO_CREDIT or not self._is_due(task):
                continue
            since_ms = self._since_ms.get(task, 0)
            if delay_ms and self._now_ms - since_ms >= min(delay_ms, COVERED_MS):
                self._add(task, _between_attempts(self._now_ms - since_ms, delay_ms))
            elif segment.granted < segment.count:
                self._count(task, lane, self._held_back_by(lane), COVERED_MS)
            elif since_ms:
                self._count(task, lane, "sending", COVERED_MS)

    def _held_back_by(self, lane: LaneCall) -> str:
        """What keeps a lane from more; only where something is left that it wants."""
        if lane.cap > 0:
            bucket = self._view.tasks[lane.name.rpartition("/")[2]].cap_bucket(self._now_ms * 1000)
            if bucket is not None and bucket.level <= 0:
                return "task_cap"
        for name, pool in zip(reversed(lane.pools), reversed(lane.bound), strict=True):
            if not pool.allows(lane.name, lane.tier):
                return TOTAL if name == TOTAL else f"cap:{name}"
        return "sending"

    def _count(self, task: str, lane: LaneCall, cause: str, covered_ms: int) -> None:
        """Gives the time since the task was counted last to a cause, if it was asked for all along."""
        since_ms = self._since_ms.get(task, 0)
        ms = self._now_ms - since_ms
        if since_ms and ms <= covered_ms:
            self._add(task, _parts_of_capacity(self._view, lane, ms) if cause == TOTAL else {cause: ms})
        self._since_ms[task] = self._now_ms

    def _add(self, task: str, parts: dict[str, int]) -> None:
        counts = self._view.causes.get(task)
        if counts is None:
            counts = self._view.causes[task] = Counter()
        for cause, ms in parts.items():
            if ms:
                counts[cause] += ms
        self._since_ms[task] = self._now_ms


def _between_attempts(ms: int, delay_ms: int) -> dict[str, int]:
    waited = min(ms, delay_ms)
    return {"retry_wait": waited, "provider": ms - waited if ms - waited <= COVERED_MS else 0}


def _grantable(lane: LaneCall) -> list[Segment]:
    return [segment for segments in lane.wants for segment in segments if segment.status == GRANTABLE]


def _delay_ms(lane: LaneCall) -> int:
    """Of a retry lane."""
    return 1000 * int(lane.name.rpartition("-")[2].removesuffix("s")) if lane.ask.kind == LaneKind.RETRY else 0


def _parts_of_capacity(view: MemoryView, lane: LaneCall, ms: int) -> dict[str, int]:
    """Where the capacity went while it held a lane back, in parts of a time."""
    pool = view.pools[TOTAL]
    share, spare = pool.tiers[lane.tier], pool.lanes[lane.name].spare
    theirs = _used_by(pool, (tier for tier in TIERS if tier != lane.tier))
    rest = ms - portion(ms, theirs, max(share.depth // MILLI, 1) + theirs)
    busy, apps = max(share.busy, lane.weight), 0
    peers = 0 if spare else portion(rest, busy - lane.weight, busy)
    if view.sharing == "apps" and not spare:
        of_app = view.app_weights.get(lane.app, MILLI) * APP_SCALE if lane.app else 0
        apps = portion(rest, max(busy - max(of_app, lane.weight), 0), busy)
    return {"tier_share": ms - rest, "app_weight": apps, "task_weight": peers - apps, "cap_total": rest - peers}


def _used_by(pool: Pool, tiers: Iterable[str]) -> int:
    """What these can use of a window, in thousandths of a target."""
    shares = (pool.tiers[tier] for tier in tiers)
    return sum(min(share.depth, share.wanted * UNIT) // MILLI for share in shares)
