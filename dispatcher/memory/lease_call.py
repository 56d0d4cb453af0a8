"""One lease call over the view: verdicts, demand, quotas, claims. quotas/lua/lease.lua does the same in Redis."""

import heapq
from itertools import chain

from dispatcher.lease import GivenBack, LeaseRequest, Piece, Status, Want
from dispatcher.memory import claims
from dispatcher.memory.causes import count_causes
from dispatcher.memory.demand import announce, forget_past
from dispatcher.memory.pools import TOTAL, UNIT, Pool, depth_of
from dispatcher.memory.verdicts import GRANTABLE, LaneCall, Segment, is_own, lane_call, verdict, way_out
from dispatcher.memory.view import Claim, ClaimRun, MemoryTask, MemoryView
from dispatcher.tier import TIERS

CLAIMING = (GRANTABLE, Status.CANCELLED, Status.EXPIRED)
GRANTED = Status.GRANTED


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
        for tier, drawing in _drawing(lanes).items():
            self._share(tier, drawing)
        count_causes(self._view, lanes, self._request.waiting_ms)
        answer = [[self._pieces(segments, lane.tier) for segments in lane.wants] for lane in lanes]
        self._claim()
        return answer

    # ---- verdicts

    def _judge(self, lane: LaneCall) -> LaneCall:
        ask, grantable = lane.ask, 0
        for want in ask.wants:
            segments = self._whole(lane, want) or self._piecewise(lane, want)
            lane.wants.append(segments)
            for segment in segments:
                if segment.status == GRANTABLE:
                    lane.queue.append(segment)
                    grantable += segment.count * want.size
        lane.waiting = ask.waiting and not ask.wants
        lane.asked = max(ask.demand, grantable)
        return lane

    def _whole(self, lane: LaneCall, want: Want) -> list[Segment]:
        """All of a want at once, where none of it has been seen yet; else nothing."""
        task = self._view.tasks.get(want.task)
        if task is None or want.attempt:
            return []
        sequences, touched = range(want.first, want.first + want.count), task.touched_of(want.writer)
        if not touched.isdisjoint(sequences):
            return []
        segment = verdict(self._view, task, lane.name, want, want.first)
        segment.count = want.count
        if self._copies and segment.status in CLAIMING and (want.task, want.writer) in self._copies:
            touched.update(sequences)
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
        view, capacity = self._view, (TOTAL,) if self._view.capacity > 0 else ()
        shared = {kind: view.pools_of(*kind) for kind in self._kinds(lanes)} if view.caps else {}
        for name in chain(capacity, *shared.values()):
            rate, burst = self._limit(name)
            pool = view.pools.get(name)
            if pool is None:
                pool = view.pools[name] = Pool(rate, self._now_us if name == TOTAL else 0, burst)
            self._pools[name] = pool
        bound: dict[tuple[str, ...], list[Pool]] = {}
        for lane in lanes:
            names = shared.get((lane.app, lane.channel), ()) if lane.app else ()
            lane.pools = (*capacity, *names) if lane.tier else names
            if lane.pools not in bound:
                bound[lane.pools] = [self._pools[name] for name in lane.pools]
            lane.bound = bound[lane.pools]

    def _kinds(self, lanes: list[LaneCall]) -> set[tuple[str, str]]:
        """App and channel of all lanes and tasks of this call."""
        tasks = {want.task for ask in self._request.lanes for want in ask.wants}
        tasks.update(given.task for given in self._request.given_back)
        known = (task for name in tasks if (task := self._view.tasks.get(name)) is not None)
        kinds = {(task.record.app, task.record.channel) for task in known if task.record}
        return kinds | {(lane.app, lane.channel) for lane in lanes if lane.app}

    def _limit(self, name: str) -> tuple[int, int]:
        """Rate and burst of a pool."""
        return (self._view.capacity, self._view.capacity_burst) if name == TOTAL else self._view.caps[name]

    def _passed_through(self, lane: LaneCall, task: MemoryTask) -> list[Pool]:
        """The pools of a task in a lane of many, which is in none of them itself."""
        if lane.app or not self._view.caps or task.record is None:
            return []
        return [self._pools[name] for name in self._view.pools_of(task.record.app, task.record.channel)]

    def _enter(self, lanes: list[LaneCall]) -> None:
        demand = self._view.demand
        for lane in lanes:
            if (lane.queue or lane.waited or (lane.waiting and lane.idle)) and lane.name in demand:
                for pool in lane.bound:
                    pool.enter(lane.name, lane.tier, lane.weight, lane.idle, lane.waited)
        for pool in self._pools.values():
            pool.settle_in()

    # ---- quotas

    def _share(self, tier: str, lanes: list[LaneCall]) -> None:
        """Grants to the lanes of one tier: the one furthest behind draws first, where it is furthest ahead. In a pool
        that does not bind all lag alike, so it is the pool that binds a lane that gives it its place."""
        total = self._pools.get(TOTAL)
        if not lanes or (total is not None and total.tiers[tier].bucket <= 0):
            return
        present = {name: pool.tiers[tier].time for name, pool in self._pools.items()}

        def ahead(lane: LaneCall) -> int:
            bound, name = lane.bound, lane.name
            if len(bound) == 1:
                return bound[0].lanes[name].time - present[lane.pools[0]]
            times = (pool.lanes[name].time - present[of] for of, pool in zip(lane.pools, bound, strict=True))
            return max(times, default=0)

        line = [(ahead(lane), place) for place, lane in enumerate(lanes)]
        heapq.heapify(line)
        while line and (total is None or total.tiers[tier].bucket > 0):
            _, place = heapq.heappop(line)
            if self._draw(lanes[place]):
                heapq.heappush(line, (ahead(lanes[place]), place))

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
        if len(segments) == 1:
            return self._settle(segments[0], tier)
        return [piece for segment in segments for piece in self._settle(segment, tier)]

    def _settle(self, segment: Segment, tier: str) -> list[Piece]:
        """The segment's pieces; what is granted (or cancelled, or expired) is claimed, the rest let go."""
        if segment.status != GRANTABLE:
            if segment.status in CLAIMING:
                self._hold(segment, segment.count, paid="")
            return [Piece(segment.status, segment.count, segment.attempt, list(segment.open_positions), segment.lane)]
        rest = segment.count - segment.granted
        pieces = []
        if segment.granted:
            self._hold(segment, segment.granted, paid=tier)
            pieces.append(Piece(GRANTED, segment.granted))
        if rest:
            if segment.marked:
                want, first = segment.want, segment.first + segment.granted
                run = ClaimRun(want.writer, want.attempt, first, rest, want.size, "")
                self._unmark(self._view.tasks[want.task], run)
            pieces.append(Piece(segment.waits, rest, 0, [], segment.lane))
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
            key, end = (want.task, want.writer), want.first + want.count
            before = ends.get(key)
            if before is None or end > before:
                ends[key] = end
            if before is not None and want.first < before:
                found.add(key)
    return found


def _drawing(lanes: list[LaneCall]) -> dict[str, list[LaneCall]]:
    """The lanes that may have something granted, by tier."""
    found: dict[str, list[LaneCall]] = {tier: [] for tier in TIERS}
    for lane in lanes:
        if lane.queue and not lane.parked and lane.tier in found:
            found[lane.tier].append(lane)
    return found
