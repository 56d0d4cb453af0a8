"""One lease call over the view: verdicts, demand, quotas, claims. quotas/lua/lease.lua does the same in Redis."""

import heapq

from dispatcher.lease import GivenBack, LeaseRequest, Piece, Status, Want
from dispatcher.memory import claims
from dispatcher.memory.causes import TOTAL, count_causes
from dispatcher.memory.demand import announce, forget_past
from dispatcher.memory.pools import UNIT, Pool, depth_of
from dispatcher.memory.verdicts import GRANTABLE, LaneCall, Segment, is_own, lane_call, verdict, way_out
from dispatcher.memory.view import Claim, ClaimRun, MemoryTask, MemoryView
from dispatcher.tier import TIERS

CLAIMING = (GRANTABLE, Status.CANCELLED, Status.EXPIRED)


class LeaseCall:
    """Grants what one request wants, at one moment."""

    def __init__(self, view: MemoryView, request: LeaseRequest) -> None:
        self._view = view
        self._request = request
        self._now_ms = view.now_ms()
        self._now_us = self._now_ms * 1000
        self._runs: dict[str, list[ClaimRun]] = {}
        self._copies = _copies(request)
        self._pools: dict[str, Pool] = {}

    def run(self) -> list[list[list[Piece]]]:
        """For each ask, for each want, its pieces."""
        refunds = [refund for given in self._request.given_back for refund in self._give_back(given)]
        lanes = [self._judge(lane_call(self._view, ask)) for ask in self._request.lanes]
        forget_past(self._view, self._now_ms)
        self._open_pools(lanes)
        announce(self._view, lanes, self._request)
        for name, pool in self._pools.items():
            pool.refill(self._now_us, *self._limit(name), self._view.tier_weights)
        for given, tier, targets in refunds:
            self._refund(given, tier, targets)
        self._enter(lanes)
        for tier in TIERS:
            self._share(tier, [lane for lane in lanes if lane.tier == tier and lane.queue and not lane.parked])
        count_causes(self._view, lanes, self._request.waiting_ms)
        answer = [[self._pieces(segments, lane.tier) for segments in lane.wants] for lane in lanes]
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
        segment = verdict(self._view, task, lane.name, want, want.first)
        segment.count = want.count
        if segment.status in CLAIMING and (want.task, want.writer) in self._copies:
            task.touched_of(want.writer).update(sequences)
            segment.marked = True
        return [segment]

    def _piecewise(self, lane: LaneCall, want: Want) -> list[Segment]:
        segments: list[Segment] = []
        task = self._view.tasks.get(want.task)
        for sequence in range(want.first, want.first + want.count):
            segment = verdict(self._view, task, lane.name, want, sequence)
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

    # ---- pools

    def _open_pools(self, lanes: list[LaneCall]) -> None:
        """The pools that bind any lane or task of this call."""
        view, names = self._view, [TOTAL] if self._view.capacity > 0 else []
        tasks = {want.task for ask in self._request.lanes for want in ask.wants}
        tasks.update(given.task for given in self._request.given_back)
        records = [task.record for name in tasks if (task := view.tasks.get(name)) is not None and task.record]
        for app, channel in {(record.app, record.channel) for record in records} | {
            (lane.app, lane.channel) for lane in lanes if lane.app
        }:
            names += view.pools_of(app, channel)
        for name in names:
            rate, burst = self._limit(name)
            pool = view.pools.get(name)
            if pool is None:
                pool = view.pools[name] = Pool(rate, self._now_us if name == TOTAL else 0, burst)
            self._pools[name] = pool
        for lane in lanes:
            shared = view.pools_of(lane.app, lane.channel) if lane.app else ()
            lane.pools = (TOTAL, *shared) if view.capacity > 0 and lane.tier else shared
            lane.bound = [self._pools[name] for name in lane.pools]

    def _limit(self, name: str) -> tuple[int, int]:
        """Rate and burst of a pool."""
        return (self._view.capacity, self._view.capacity_burst) if name == TOTAL else self._view.caps[name]

    def _passed_through(self, lane: LaneCall, task: MemoryTask) -> list[Pool]:
        """The pools of a task in a lane of many, which is in none of them itself."""
        if lane.app or not self._view.caps or task.record is None:
            return []
        return [self._pools[name] for name in self._view.pools_of(task.record.app, task.record.channel)]

    def _enter(self, lanes: list[LaneCall]) -> None:
        for lane in lanes:
            if lane.name in self._view.demand and (lane.queue or lane.waited or (lane.waiting and lane.idle)):
                for pool in lane.bound:
                    pool.enter(lane.name, lane.tier, lane.weight, lane.idle, lane.waited)
        for pool in self._pools.values():
            pool.settle_in()

    # ---- quotas

    def _share(self, tier: str, lanes: list[LaneCall]) -> None:
        """Grants to the lanes of one tier: the one furthest behind draws first, where it is furthest ahead. In a pool
        that does not bind all lag alike, so it is the pool that binds a lane that gives it its place."""
        present = {name: pool.tiers[tier].time for name, pool in self._pools.items()}
        times = [
            [(pool.lanes[lane.name], present[name]) for name, pool in zip(lane.pools, lane.bound, strict=True)]
            for lane in lanes
        ]

        def ahead(place: int) -> int:
            found = times[place]
            if len(found) == 1:
                return found[0][0].time - found[0][1]
            return max((entry.time - then for entry, then in found), default=0)

        total = self._pools.get(TOTAL)
        line = [(ahead(place), place) for place in range(len(lanes))]
        heapq.heapify(line)
        while line and (total is None or total.tiers[tier].bucket > 0):
            _, place = heapq.heappop(line)
            if self._draw(lanes[place]):
                heapq.heappush(line, (ahead(place), place))

    def _draw(self, lane: LaneCall) -> bool:
        """Grants one quantum to the lane; False if it can have no more."""
        if not lane.queue:
            return False
        segment = lane.queue[0]
        task, size = self._view.tasks[segment.want.task], segment.want.size
        bucket = task.cap_bucket(self._now_us)
        if bucket is not None and bucket.level <= 0:
            return self._cap_reached(lane, segment, task)
        for pool in lane.bound:
            if not pool.allows(lane.name, lane.tier):
                return False
        passed = self._passed_through(lane, task)
        for pool in passed:
            if not pool.spares(lane.tier):
                return self._move(lane, segment, task)
        count = segment.count - segment.granted
        if bucket is not None:
            count = min(count, -(-bucket.level // (size * UNIT)))
        for pool in lane.bound:
            count = min(count, max(pool.quantum(lane.tier, lane.weight) // size, 1))
        for pool in passed:
            count = min(count, -(-pool.tiers[lane.tier].bucket // (size * UNIT)))
        self._grant(lane, segment, task, count, passed)
        return True

    def _grant(self, lane: LaneCall, segment: Segment, task: MemoryTask, count: int, passed: list[Pool]) -> None:
        targets = count * segment.want.size
        for pool in lane.bound:
            pool.charge(lane.name, lane.tier, lane.weight, targets)
        for pool in passed:
            pool.tiers[lane.tier].bucket -= targets * UNIT
        if task.cap and task.bucket is not None:
            task.bucket.level -= targets * UNIT
        self._view.stats[f"granted:{lane.tier}"] += targets
        segment.granted += count
        if segment.granted == segment.count:
            lane.queue.pop(0)

    def _cap_reached(self, lane: LaneCall, segment: Segment, task: MemoryTask) -> bool:
        """A capped task waits in its own lane, and leaves the lanes of others."""
        if task.record is None or task.record.shared or is_own(task, lane.name):
            return False
        return self._move(lane, segment, task)

    def _move(self, lane: LaneCall, segment: Segment, task: MemoryTask) -> bool:
        """What must wait leaves a lane of many."""
        segment.waits, segment.lane = Status.MOVE, way_out(self._view, task)
        lane.queue.pop(0)
        return True

    # ---- claims

    def _pieces(self, segments: list[Segment], tier: str) -> list[Piece]:
        return [piece for segment in segments for piece in self._settle(segment, tier)]

    def _settle(self, segment: Segment, tier: str) -> list[Piece]:
        """The segment's pieces; what is granted (or cancelled, or expired) is claimed, the rest let go."""
        if segment.status in (Status.CANCELLED, Status.EXPIRED):
            self._hold(segment, segment.count, paid="")
        if segment.status != GRANTABLE:
            return [Piece(segment.status, segment.count, segment.attempt, segment.open_positions, segment.lane)]
        rest = segment.count - segment.granted
        pieces = []
        if segment.granted:
            self._hold(segment, segment.granted, paid=tier)
            pieces.append(Piece(Status.GRANTED, segment.granted))
        if rest:
            want = segment.want
            run = ClaimRun(want.writer, want.attempt, segment.first + segment.granted, rest, want.size, "")
            if segment.marked:
                self._unmark(self._view.tasks[want.task], run)
            pieces.append(Piece(segment.waits, rest, lane=segment.lane))
        return pieces

    def _hold(self, segment: Segment, count: int, paid: str) -> None:
        want = segment.want
        if not segment.marked:
            sequences = range(segment.first, segment.first + count)
            self._view.tasks[want.task].touched_of(want.writer).update(sequences)
        runs = self._runs.setdefault(want.task, [])
        claims.add(runs, ClaimRun(want.writer, want.attempt, segment.first, count, want.size, paid))

    def _claim(self) -> None:
        request, now = self._request, self._now_ms
        for task, runs in self._runs.items():
            claim = Claim(now + request.claim_ms, now + request.lease_ms, runs)
            claims.open_claim(self._view, claims.member(request.claim, task), claim)

    # ---- giving back

    def _give_back(self, given: GivenBack) -> list[tuple[GivenBack, str, int]]:
        """Lets go of what the claim still holds of it; returns what is to be refunded, and to which tier."""
        name = claims.member(given.claim, given.task)
        claim, refunds = self._view.claims.get(name), []
        if claim is None:
            return []
        in_time = self._now_ms < claim.lease_end_ms
        for run in claims.cut(self._view, name, given.writer, given.attempt, given.first, given.count):
            freed = claims.free(self._view.task(given.task), run, given.claim)
            claims.tally(self._view, "returned" if in_time else "expired", run, freed)
            claims.tally(self._view, "used", run, run.count - freed)
            if in_time and run.paid and freed:
                refunds.append((given, run.paid, freed * run.size))
        return refunds

    def _refund(self, given: GivenBack, tier: str, targets: int) -> None:
        demand, task = self._view.demand.get(given.lane), self._view.task(given.task)
        bucket = task.cap_bucket(self._now_us)
        if bucket is not None:
            bucket.level = min(bucket.level + targets * UNIT, depth_of(task.cap, task.cap_burst))
        weight = demand.weight if demand is not None else 0
        names = self._view.pools_of(task.record.app, task.record.channel) if task.record else ()
        for name in (TOTAL, *names):
            if name in self._pools:
                self._pools[name].refund(given.lane, tier, weight, targets)


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
