"""One lease call over the view: verdicts, demand, quotas, claims. quotas/lua/lease.lua does the same in Redis."""

import heapq

from dispatcher.lease import GivenBack, LeaseRequest, Piece, Status, Want
from dispatcher.memory import claims
from dispatcher.memory.pools import UNIT, Bucket, Pool, cap_depth
from dispatcher.memory.verdicts import GRANTABLE, LaneCall, Segment, is_own, lane_call, verdict
from dispatcher.memory.view import Claim, ClaimRun, Demand, MemoryTask, MemoryView
from dispatcher.tier import TIERS

TOTAL = "total"
"""The pool all lanes share."""
CLAIMING = (GRANTABLE, Status.CANCELLED, Status.EXPIRED)
DEBT_MS = 60_000
"""How long a lane that went idle ahead of its tier is remembered."""


class LeaseCall:
    """Grants what one request wants, at one moment."""

    def __init__(self, view: MemoryView, request: LeaseRequest) -> None:
        self._view = view
        self._request = request
        self._now_ms = view.now_ms()
        self._now_us = self._now_ms * 1000
        self._runs: dict[str, list[ClaimRun]] = {}
        self._copies = _copies(request)

    def run(self) -> list[list[list[Piece]]]:
        """For each ask, for each want, its pieces."""
        refunds = [refund for given in self._request.given_back for refund in self._give_back(given)]
        lanes = [self._judge(lane_call(self._view, ask)) for ask in self._request.lanes]
        self._forget_demand()
        pools = self._open_pools()
        for lane in lanes:
            self._announce(lane, tuple(pools))
        for pool in pools.values():
            pool.refill(self._now_us, self._view.capacity, self._view.tier_weights)
        for given, targets in refunds:
            self._refund(given, targets, pools)
        for tier in TIERS:
            self._share([lane for lane in lanes if lane.tier == tier and lane.queue], list(pools.values()))
        answer = [[self._pieces(segments) for segments in lane.wants] for lane in lanes]
        self._claim()
        return answer

    # ---- verdicts

    def _judge(self, lane: LaneCall) -> LaneCall:
        for want in lane.ask.wants:
            segments = self._whole(lane, want) or self._piecewise(lane, want)
            lane.wants.append(segments)
            lane.queue.extend(segment for segment in segments if segment.status == GRANTABLE)
        return lane

    def _whole(self, lane: LaneCall, want: Want) -> list[Segment]:
        """All of a want at once, where none of it has been seen yet; else nothing."""
        task, sequences = self._view.tasks.get(want.task), range(want.first, want.first + want.count)
        if task is None or want.attempt or not task.touched_of(want.writer).isdisjoint(sequences):
            return []
        segment = verdict(task, lane.name, want, want.first, self._now_ms)
        segment.count = want.count
        if segment.status in CLAIMING and (want.task, want.writer) in self._copies:
            task.touched_of(want.writer).update(sequences)
            segment.marked = True
        return [segment]

    def _piecewise(self, lane: LaneCall, want: Want) -> list[Segment]:
        segments: list[Segment] = []
        task = self._view.tasks.get(want.task)
        for sequence in range(want.first, want.first + want.count):
            segment = verdict(task, lane.name, want, sequence, self._now_ms)
            if task is not None and segment.status in CLAIMING:
                self._mark(task, segment, sequence)
            if segments and segments[-1].joins(segment):
                segments[-1].count += 1
            else:
                segments.append(segment)
        return segments

    def _mark(self, task: MemoryTask, segment: Segment, sequence: int) -> None:
        """At once, so that a copy further on in the same call is not granted too."""
        segment.marked = True
        if segment.want.attempt == 0:
            task.touched_of(segment.want.writer).add(sequence)
        else:
            envelope = task.open[segment.want.writer, sequence]
            envelope.claimed, envelope.claim = segment.want.attempt, self._request.claim

    def _unmark(self, task: MemoryTask, run: ClaimRun) -> None:
        sequences = range(run.first, run.first + run.count)
        if run.attempt == 0:
            task.touched_of(run.writer).difference_update(sequences)
            return
        for sequence in sequences:
            envelope = task.open[run.writer, sequence]
            envelope.claimed, envelope.claim = -1, ""

    # ---- demand

    def _open_pools(self) -> dict[str, Pool]:
        if self._view.capacity <= 0:
            return {}
        pools = self._view.pools
        return {TOTAL: pools.setdefault(TOTAL, Pool(self._view.capacity, self._now_us))}

    def _forget_demand(self) -> None:
        view, now = self._view, self._now_ms
        for lane in [lane for lane, until in view.debts.items() if until <= now]:
            self._forget_lane(lane)
        for lane in [lane for lane, demand in view.demand.items() if demand.until_ms <= now]:
            demand = self._withdraw(lane)
            if any(view.pools[name].is_ahead(lane, demand.tier) for name in demand.pools):
                view.debts[lane] = now + DEBT_MS
            else:
                self._forget_lane(lane)

    def _forget_lane(self, lane: str) -> None:
        self._view.debts.pop(lane, None)
        for pool in self._view.pools.values():
            pool.lanes.pop(lane, None)

    def _withdraw(self, lane: str) -> Demand:
        demand = self._view.demand.pop(lane)
        for name in demand.pools:
            share = self._view.pools[name].tiers[demand.tier]
            share.busy -= demand.weight
            share.wanted -= demand.targets
        return demand

    def _announce(self, lane: LaneCall, pools: tuple[str, ...]) -> None:
        view, now = self._view, self._now_ms
        old = self._withdraw(lane.name) if lane.name in view.demand else None
        lane.idle = old is None
        targets = max(lane.ask.demand, sum(segment.count * segment.want.size for segment in lane.queue))
        if lane.parked or not pools or (targets <= 0 and old is None):
            if old is not None:
                view.debts[lane.name] = now + DEBT_MS
            return
        if lane.cap:
            targets = min(targets, cap_depth(lane.cap) // UNIT)
        until = now + self._request.demand_ms
        demand = Demand(lane.tier, lane.weight, targets, until, until, pools)
        if old is not None and old.targets > targets and old.targets_until_ms > now:
            demand.targets, demand.targets_until_ms = old.targets, old.targets_until_ms
        if old is not None:
            demand.until_ms = max(old.until_ms, until if targets > 0 else 0)
        view.debts.pop(lane.name, None)
        view.demand[lane.name] = demand
        for name in pools:
            share = view.pools[name].tiers[demand.tier]
            share.busy += demand.weight
            share.wanted += demand.targets

    # ---- quotas

    def _share(self, lanes: list[LaneCall], pools: list[Pool]) -> None:
        """Grants to the lanes of one tier: the one furthest behind draws first."""
        line = [(self._enter(lane, pools), place) for place, lane in enumerate(lanes)]
        heapq.heapify(line)
        while line and all(pool.tiers[lanes[0].tier].bucket > 0 for pool in pools):
            _, place = heapq.heappop(line)
            lane = lanes[place]
            if self._draw(lane, pools):
                heapq.heappush(line, (pools[0].lanes[lane.name].time if pools else 0, place))

    def _enter(self, lane: LaneCall, pools: list[Pool]) -> int:
        """The lane's virtual time in the pool that orders the lanes."""
        times = [pool.enter(lane.name, lane.tier, lane.idle).time for pool in pools]
        return times[0] if times else 0

    def _draw(self, lane: LaneCall, pools: list[Pool]) -> bool:
        """Grants one quantum to the lane; False if it can have no more."""
        if not lane.queue:
            return False
        segment = lane.queue[0]
        task, size = self._view.tasks[segment.want.task], segment.want.size
        bucket = self._cap_bucket(task)
        if bucket is not None and bucket.level <= 0:
            return self._cap_reached(lane, segment, task)
        count = segment.count - segment.granted
        if bucket is not None:
            count = min(count, -(-bucket.level // (size * UNIT)))
        if not all(pool.allows(lane.name, lane.tier) for pool in pools):
            return False
        for pool in pools:
            count = min(count, max(pool.quantum(lane.tier, lane.weight) // size, 1))
        self._grant(lane, segment, count, pools)
        return True

    def _grant(self, lane: LaneCall, segment: Segment, count: int, pools: list[Pool]) -> None:
        targets = count * segment.want.size
        for pool in pools:
            pool.charge(lane.name, lane.tier, lane.weight, targets)
        task = self._view.tasks[segment.want.task]
        if task.cap and task.bucket is not None:
            task.bucket.level -= targets * UNIT
        self._view.stats[f"granted:{lane.tier}"] += targets
        segment.granted += count
        if segment.granted == segment.count:
            lane.queue.pop(0)

    def _cap_bucket(self, task: MemoryTask) -> Bucket | None:
        if task.cap <= 0:
            return None
        if task.bucket is None:
            task.bucket = Bucket(cap_depth(task.cap), self._now_us)
        task.bucket.refill(self._now_us, task.cap)
        return task.bucket

    def _cap_reached(self, lane: LaneCall, segment: Segment, task: MemoryTask) -> bool:
        """A capped task waits in its own lane, and leaves the lanes of others."""
        if task.record is None or task.record.shared or is_own(task, lane.name):
            return False
        segment.waits, segment.lane = Status.MOVE, task.record.lane
        lane.queue.pop(0)
        return True

    # ---- claims

    def _pieces(self, segments: list[Segment]) -> list[Piece]:
        return [piece for segment in segments for piece in self._settle(segment)]

    def _settle(self, segment: Segment) -> list[Piece]:
        """The segment's pieces; what is granted (or cancelled, or expired) is claimed, the rest let go."""
        if segment.status in (Status.CANCELLED, Status.EXPIRED):
            self._hold(segment, segment.count, paid=False)
        if segment.status != GRANTABLE:
            return [Piece(segment.status, segment.count, segment.attempt, segment.open_positions, segment.lane)]
        rest = segment.count - segment.granted
        pieces = []
        if segment.granted:
            self._hold(segment, segment.granted, paid=True)
            pieces.append(Piece(Status.GRANTED, segment.granted))
        if rest:
            want = segment.want
            run = ClaimRun(want.writer, want.attempt, segment.first + segment.granted, rest, False)
            if segment.marked:
                self._unmark(self._view.tasks[want.task], run)
            pieces.append(Piece(segment.waits, rest, lane=segment.lane))
        return pieces

    def _hold(self, segment: Segment, count: int, paid: bool) -> None:
        want = segment.want
        if not segment.marked:
            sequences = range(segment.first, segment.first + count)
            self._view.tasks[want.task].touched_of(want.writer).update(sequences)
        runs = self._runs.setdefault(want.task, [])
        claims.add(runs, ClaimRun(want.writer, want.attempt, segment.first, count, paid))

    def _claim(self) -> None:
        request, now = self._request, self._now_ms
        for task, runs in self._runs.items():
            claim = Claim(now + request.claim_ms, now + request.lease_ms, runs)
            claims.open_claim(self._view, claims.member(request.claim, task), claim)

    # ---- giving back

    def _give_back(self, given: GivenBack) -> list[tuple[GivenBack, int]]:
        """Lets go of what the claim still holds of it; returns what is to be refunded."""
        name, targets = claims.member(given.claim, given.task), 0
        claim = self._view.claims.get(name)
        if claim is None:
            return []
        for run in claims.cut(self._view, name, given.writer, given.attempt, given.first, given.count):
            freed = claims.free(self._view.task(given.task), run, given.claim)
            targets += freed * given.size if run.paid else 0
        return [(given, targets)] if targets and self._now_ms < claim.lease_end_ms else []

    def _refund(self, given: GivenBack, targets: int, pools: dict[str, Pool]) -> None:
        demand = self._view.demand.get(given.lane)
        task = self._view.task(given.task)
        bucket = self._cap_bucket(task)
        if bucket is not None:
            bucket.level = min(bucket.level + targets * UNIT, cap_depth(task.cap))
        if demand is None:
            return
        self._view.stats[f"returned:{demand.tier}"] += targets
        for name in demand.pools:
            if name in pools:
                pools[name].refund(given.lane, demand.tier, demand.weight, targets)


def _copies(request: LeaseRequest) -> set[tuple[str, str]]:
    """Task and writer of wants that may overlap one before them in the same call."""
    ends: dict[tuple[str, str], int] = {}
    found = set()
    for ask in request.lanes:
        for want in ask.wants:
            key = (want.task, want.writer)
            if want.first < ends.get(key, 0):
                found.add(key)
            ends[key] = max(ends.get(key, 0), want.first + want.count)
    return found
