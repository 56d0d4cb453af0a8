"""Lease calls to the ledger: when to ask, for how much, and how to apply the answer."""

import logging
from collections import deque
from collections.abc import Mapping, Sequence

from dispatcher.clock import ClockComparison
from dispatcher.engine.buffers import CREDIT, WAITING, LaneBuffer
from dispatcher.engine.events import LeaseAnswered
from dispatcher.engine.lanes import WorkingSet
from dispatcher.engine.rhythm import Horizon, Rhythm
from dispatcher.engine.runs import EnvelopeRun
from dispatcher.engine.sending import Sending
from dispatcher.engine.settling import Settling
from dispatcher.engine.shared import EnginePart, Shared
from dispatcher.engine.suspects import Suspects
from dispatcher.model.errors import Refused
from dispatcher.model.tier import DEFAULT_TIER_WEIGHTS, TIERS, Tier
from dispatcher.ports import WaitingLane
from dispatcher.scheduling.sharing import WORK_WEIGHTS, share_out
from dispatcher.wire.lease import FORMAT, GivenBack, LaneAsk, LaneKind, LeaseAnswer, LeaseRequest, Status, StatusRun
from dispatcher.wire.outcome import Outcome

SLICE = 100
"""Lanes announced in one call."""
SLICE_EVERY_S = 0.2
MIN_VALID_MS = 3_000
_log = logging.getLogger(__name__)
GRANTED, NO_CREDIT = Status.GRANTED, Status.NO_CREDIT
"""Looked up once: access to an enum member costs ten times a name, and these are compared for every envelope."""


class Waiting:
    """Waiting lanes, each announced twice while an announcement is valid. The more lanes there are, the longer an
    announcement is valid, so it never takes more than five calls a second."""

    def __init__(self) -> None:
        self._lanes: dict[str, WaitingLane] = {}
        self._queue: deque[str] = deque()
        """Every lane once, next to be announced first. May include lanes that no longer wait."""
        self._queued: set[str] = set()
        self._new = 0
        self._taken_s = self._due_s = 0.0

    @property
    def valid_ms(self) -> int:
        """Return how long an announcement is valid: two rounds of all slices."""
        rounds = -(-len(self._lanes) // SLICE)
        return max(MIN_VALID_MS, round(2_000 * SLICE_EVERY_S * (rounds + 1)))

    def change(self, lanes: Sequence[WaitingLane]) -> None:
        """Replace the set of waiting lanes."""
        self._lanes = {lane.name: lane for lane in lanes}
        new = [name for name in self._lanes if name not in self._queued]
        self._queued.update(new)
        self._queue.extendleft(reversed(new))
        self._new = min(self._new + len(new), len(self._lanes))
        if new:
            self._due_s = min(self._due_s, self._taken_s + SLICE_EVERY_S)
        if len(self._queue) > 2 * len(self._lanes) + SLICE:
            self._forget_others()

    def _forget_others(self) -> None:
        """Forget lanes that no longer wait. With ample capacity no slice is taken for days, while tasks come and go."""
        self._queue = deque(name for name in self._queue if name in self._lanes)
        self._queued = set(self._queue)

    def due_s(self) -> float | None:
        """Return when the next slice is due; None if there is nothing to announce."""
        return self._due_s if self._lanes else None

    def take(self, now_s: float) -> list[LaneAsk]:
        """Return the next slice, if it is due."""
        if not self._lanes or now_s < self._due_s:
            return []
        asks: list[LaneAsk] = []
        for _ in range(len(self._queue)):
            if len(asks) == SLICE:
                break
            lane = self._lanes.get(name := self._queue.popleft())
            if lane is None:
                self._queued.discard(name)
                continue
            self._queue.append(name)
            asks.append(
                LaneAsk(
                    lane=lane.name,
                    kind=LaneKind.OWN,
                    tier="",
                    demand=lane.targets,
                    wants=[],
                    waiting=True,
                    task=lane.task,
                )
            )
        self._new = max(0, self._new - SLICE)
        self._taken_s, self._due_s = now_s, now_s + self._pause_s()
        return asks

    def _pause_s(self) -> float:
        """Return the time to the next slice. New lanes are announced at the full rate of five calls a second; a few old
        ones need fewer."""
        slices = -(-len(self._lanes) // SLICE)
        return SLICE_EVERY_S if self._new else max(SLICE_EVERY_S, self.valid_ms / 2_000 / max(1, slices))


class Leases(EnginePart):
    """Lease calls of one worker, one at a time.

    A call without an answer is repeated under its number until it has one: the ledger may have carried it out, and it
    returns the same answer only under that number. The use-by of its grants counts from the first attempt, so grants in
    a late answer are given back and asked for again.

    A call that the ledger cannot carry out is not repeated. Its content is split in halves and asked for under new
    numbers, alternating with other calls (`Suspects`).
    """

    def __init__(self, shared: Shared, working: WorkingSet, sending: Sending, settling: Settling) -> None:
        super().__init__(shared)
        self._working = working
        self._sending = sending
        self._settling = settling
        self._number = 0
        self._request: LeaseRequest | None = None
        self._asked: list[LaneBuffer] = []
        self._first_asked_s = 0.0
        self._not_before_s = -1e9
        self._not_ready_s = 0.0
        self._repeat_s = 0.0
        self._rhythm = Rhythm(shared.settings)
        self._clocks = ClockComparison(shared.settings.lease_ms / 1000)
        self._horizon = Horizon(shared.settings)
        self._capacity = 0
        self._granted_flows: set[str] = set()
        """Flows to which the answer that is being applied granted something."""
        self._weights = dict(DEFAULT_TIER_WEIGHTS)
        self.draining = False
        self.waiting = Waiting()
        self._suspects = Suspects(working, settling.set_apart, shared.stats)
        self._asked_suspects = False

    @property
    def pending(self) -> bool:
        """Return whether a call is under way, or returned credit still has to be sent."""
        return self._request is not None or bool(self._working.given_back) or self._suspects.given_back

    # ------------------------------------------------------------- when
    def advance(self, now_s: float) -> float | None:
        """Make a call if it is time. Return when to check again (None: after the next event)."""
        if self._request is not None:
            return None
        due_s = self._due_s(now_s)
        if self._suspects.waiting and (due_s is None or due_s > now_s or not self._asked_suspects):
            return self._ask_suspects(now_s)
        self._asked_suspects = False
        if due_s is None or due_s > now_s:
            return due_s
        self._ask(now_s)
        return None

    def _due_s(self, now_s: float) -> float | None:
        """Return when the next call for credit is due, apart from suspects; None if there is nothing to ask for."""
        working = self._working
        if working.with_demand or working.given_back:
            at_once = self.draining or self._is_urgent(now_s)
            due_s = self._rhythm.due_s(now_s, at_once=at_once, targets_s=2 * self._sending.recent(now_s))
        elif (waiting_s := self._waiting_due_s()) is not None:
            due_s = max(waiting_s, self._rhythm.due_s(now_s, at_once=False))
        else:
            return None
        return max(self._not_before_s, due_s)

    def _waiting_due_s(self) -> float | None:
        """Return when to announce waiting lanes; None while credit is plentiful, because nobody needs that then."""
        if self.waiting.due_s() is None:
            return None
        scarce = self._capacity or any(lane.short for lane in self._working.lanes.values())
        return self.waiting.due_s() if scarce and not self.draining else None

    def _is_urgent(self, now_s: float) -> bool:
        """Return whether demand is new, or credit is running out only because we have not asked."""
        working = self._working
        if not working.with_demand or working.woken:
            return bool(working.with_demand)
        horizon = self._horizon.targets(self._sending.recent(now_s))
        return 2 * self._stats.credit_targets < horizon and working.eager

    # ------------------------------------------------------------- asking
    def _ask(self, now_s: float) -> None:
        self._horizon.adapt(self._stats.given_back, self._stats.credit_targets)
        working = self._working
        working.woken = working.eager = False
        asks = [] if self.draining else self._lane_asks(now_s)
        if self._waiting_due_s() is not None:
            asks += self.waiting.take(now_s)
        given_back, working.given_back = working.given_back, []
        self._rhythm.asked(now_s)
        self._start(asks, given_back, now_s)

    def _ask_suspects(self, now_s: float) -> float | None:
        """Ask about one group of suspects. Return when to check again."""
        if self._not_before_s > now_s:
            return self._not_before_s
        self._asked_suspects = True
        group = self._suspects.take()
        self._asked = list(dict.fromkeys(lane for lane, _ in group.parts))
        self._start([lane.ask() for lane in self._asked], group.given_back, now_s)
        return None

    def _start(self, asks: list[LaneAsk], given_back: list[GivenBack], now_s: float) -> None:
        settings = self._settings
        self._number += 1
        self._request = LeaseRequest(
            format=FORMAT,
            worker=settings.worker,
            number=self._number,
            lease_ms=settings.lease_ms,
            claim_ms=settings.claim_ms,
            demand_ms=settings.demand_ms,
            lanes=asks,
            given_back=given_back,
            waiting_ms=self.waiting.valid_ms,
            shared_namespace=self._ports.topics.shared_namespace,
            channels=dict(settings.channel_terms),
        )
        self._first_asked_s = now_s
        self._call()

    def _call(self) -> None:
        request, inbox = self._request, self._inbox
        if request is None:
            return
        self._stats.lease_calls += 1

        def answered(answer: LeaseAnswer | None, error: Exception | None) -> None:
            inbox.put(LeaseAnswered(request.number, answer, error))

        self._ports.leases.ask(request, answered)

    def _lane_asks(self, now_s: float) -> list[LaneAsk]:
        wall_ms = self._clock.wall_ms()
        horizon = self._horizon.targets(self._sending.recent(now_s))
        working = self._working
        lanes = [lane for lane in working.lanes.values() if lane.targets[WAITING] or lane.targets[CREDIT]]
        levels = credit_levels(lanes, horizon, self._weights)
        asks: list[LaneAsk] = []
        self._asked = []
        for lane in lanes:
            name, credit = lane.name, lane.targets[CREDIT]
            room = levels.get(name, horizon) - credit
            parts: list[EnvelopeRun] = []
            if name in working.with_demand and (room > 0 or not credit):
                parts = self._take_wants(lane, max(1, room), wall_ms)
                self._settling.lapped(lane, wall_ms)
            working.note(lane, wake=False)
            if parts or (self._capacity and not lane.parked and name in working.with_demand):
                asks.append(lane.ask())
                self._asked.append(lane)
        return asks

    def _take_wants(self, lane: LaneBuffer, room: int, wall_ms: int) -> list[EnvelopeRun]:
        """Return the runs to ask for, without those of tasks whose outcomes are not stored, which could not be sent.
        Such runs stay in the lane of one task, and are held in a lane of many tasks."""
        has_room = self._unsettled.has_room
        if lane.info.task and not has_room(lane.info.task):
            self._working.wait_for_room(lane)
            return []
        while parts := lane.take_wants(room, self._settings.wants_per_lane, wall_ms):
            blocked = [part for part in parts if not has_room(part.task)]
            if not blocked:
                return parts
            lane.leave_out(blocked)
            for part in blocked:
                self._working.hold(lane, part)
            if lane.asked:
                return lane.asked
        return []

    # ------------------------------------------------------------- answers
    def answered(self, event: LeaseAnswered, now_s: float) -> None:
        """Apply an answer. Ignore one that is not awaited (a late duplicate)."""
        request = self._request
        if request is None or event.number != request.number:
            return
        if event.answer is None:
            self._failed(request, event.error, now_s)
            return
        self._request = None
        self._repeat_s = 0.0
        self._compare_clocks(event.answer, now_s)
        self._take_settings(event.answer)
        asked, self._asked = self._asked, []
        if not event.answer.ready:
            self._not_ready(asked, now_s)
            return
        self._not_ready_s = 0.0
        self._suspects.judge()
        use_by_s = self._first_asked_s + request.lease_ms / 1000
        own = len(asked)  # lanes that only announce demand follow after them
        for lane, ask, answer in zip(asked, request.lanes[:own], event.answer.lanes[:own], strict=True):
            if ask.wants:
                _LaneReader(lane, request.claim, use_by_s, now_s, self).apply(answer)
        self._ports.allot(event.answer.paces, self._granted_flows, self._carried_out_s(event.answer, now_s))
        self._granted_flows.clear()

    def _failed(self, request: LeaseRequest, error: Exception | None, now_s: float) -> None:
        self._stats.lease_errors += 1
        if error is None or getattr(error, "retryable", False):
            self._repeat(now_s)
            return
        if isinstance(error, Refused):
            raise error
        self._request = None
        asked, self._asked = self._asked, []
        if request.given_back or any(ask.wants for ask in request.lanes):
            self._suspects.accuse(asked, request.given_back, error)
            return
        _log.error("The ledger cannot carry out any call. %s", error)
        self._back_off()
        self._not_before_s = now_s + self._repeat_s
        self._suspects.acquit()

    def _repeat(self, now_s: float) -> None:
        number = self._number
        self._back_off()
        self._timers.at(now_s + self._repeat_s, lambda: self._call_again(number))

    def _back_off(self) -> None:
        self._repeat_s = self._settings.repeat.after(self._repeat_s)

    def _call_again(self, number: int) -> None:
        if self._number == number:
            self._call()

    def _compare_clocks(self, answer: LeaseAnswer, now_s: float) -> None:
        """Give back older grants if our clock has stopped since: their use-by is later than the ledger's."""
        gained_s = self._clocks.gained_s(answer.now_ms, self._first_asked_s, now_s)
        if gained_s is not None and gained_s >= self._settings.clock_stop_s:
            self._clocks.begin_again()
            self._stats.clock_stops += 1
            self._sending.revoke(now_s)

    def _carried_out_s(self, answer: LeaseAnswer, now_s: float) -> float:
        """Return when the ledger carried the call out, by our monotonic clock: our wall clock follows the ledger's."""
        carried_out_s = now_s - (self._clock.wall_ms() - answer.now_ms) / 1000
        return min(max(carried_out_s, self._first_asked_s), now_s)

    def _take_settings(self, answer: LeaseAnswer) -> None:
        self._capacity = answer.capacity
        if len(answer.tier_weights) == len(TIERS):
            self._weights = {tier: max(1, weight) for tier, weight in zip(TIERS, answer.tier_weights, strict=True)}
            self._sending.scheduler.set_tier_weights(self._weights)
            self._working.drains.scheduler.set_tier_weights(self._weights)

    def _not_ready(self, asked: list[LaneBuffer], now_s: float) -> None:
        """Put everything back, and wait longer before each next call: the view is empty or being rebuilt."""
        self._not_ready_s = self._settings.held.after(self._not_ready_s)
        self._not_before_s = now_s + self._not_ready_s
        self._back_to_lanes(asked)
        self._suspects.acquit()

    def _back_to_lanes(self, asked: Sequence[LaneBuffer]) -> None:
        for lane in asked:
            self.put_back(lane, lane.end_call())
            self._working.detach_if_done(lane)

    def put_back(self, lane: LaneBuffer, parts: Sequence[EnvelopeRun]) -> None:
        """Put runs that were not granted back at the head of the waiting ones."""
        for part in reversed(parts):
            lane.put_back(part)
        self._working.note(lane, wake=False)

    def grant(self, lane: LaneBuffer, part: EnvelopeRun) -> None:
        self._granted_flows.add(part.flow)
        if lane.closing:
            self._working.give_back(lane, part)
        else:
            self._sending.grant(lane, part)


class _LaneReader:
    """Applies the answer for one lane."""

    def __init__(self, lane: LaneBuffer, claim: str, use_by_s: float, now_s: float, leases: Leases) -> None:
        self._lane = lane
        self._claim = claim
        self._use_by_s = use_by_s
        self._now_s = now_s
        self._leases = leases
        self._returned: list[EnvelopeRun] = []
        self._short = False
        self._park = False

    def apply(self, answer: list[list[StatusRun]]) -> None:
        lane, working = self._lane, self._leases._working
        for part, pieces in zip(lane.end_call(), answer, strict=True):
            remaining = part.count
            for piece in pieces:
                count = piece.count if piece.count < remaining else remaining
                if count > 0:
                    self._piece(part.take(count), piece)
                    remaining -= count
            if remaining:
                self._returned.append(part)
        lane.set_short(short=self._short)
        self._leases.put_back(lane, self._returned)
        if self._park:
            working.park(lane)
            working.note(lane)
        working.drains.mark(lane)
        working.detach_if_done(lane)

    def _piece(self, part: EnvelopeRun, piece: StatusRun) -> None:
        status = piece.status
        if status == NO_CREDIT:
            self._short = True
            self._returned.append(part)
        elif status == GRANTED:
            part.regroup(piece.groups)
            self._leases.grant(self._lane, part.granted(self._claim, self._use_by_s, self._now_s))
        elif status == Status.PARKED and self._lane.info.kind in (LaneKind.OWN, LaneKind.SIDE):
            self._park = True
            self._returned.append(part)
        elif status in (Status.HELD, Status.PARKED):
            self._hold(part)
        else:
            self._settle(part, piece)

    def _hold(self, part: EnvelopeRun) -> None:
        if self._lane.closing:
            self._returned.append(part)
        else:
            self._leases._working.hold(self._lane, part)

    def _settle(self, part: EnvelopeRun, piece: StatusRun) -> None:
        """Pass a run that needs no sending to settling."""
        lane, settling = self._lane, self._leases._settling
        self._leases._working.take_out(lane, part)
        match piece.status:
            case Status.DROP:
                settling.dropped(lane, part)
            case Status.REPUBLISH:
                settling.recorded(lane, part, piece)
            case Status.CANCELLED | Status.EXPIRED:
                code = Outcome.CANCELLED if piece.status == Status.CANCELLED else Outcome.EXPIRED
                settling.closed(lane, part.granted(self._claim, self._use_by_s, self._now_s), int(code))
            case Status.UNKNOWN:
                settling.unknown(lane, part)
            case Status.MOVE:
                settling.moved(lane, part, piece.lane)
            case _:
                raise ValueError(f"The ledger answered with the unknown status {piece.status}.")


def credit_levels(lanes: Sequence[LaneBuffer], horizon: int, weights: Mapping[Tier, int]) -> dict[str, int]:
    """Return each lane's part of `horizon` targets by name, by the weights of tiers, fresh work, retries and lanes.

    A lane that is short of credit is not in the result: the ledger divides scarce credit; only it knows all workers.
    """
    by_tier: dict[Tier, list[LaneBuffer]] = {tier: [] for tier in TIERS}
    for lane in lanes:
        if not lane.short and not lane.parked:
            by_tier[lane.tier].append(lane)
    tiers = [tier for tier in TIERS if by_tier[tier]]
    if not tiers:
        return {}
    needs = [sum(map(_need, by_tier[tier])) for tier in tiers]
    shares = share_out(horizon, [(need, weights[tier]) for need, tier in zip(needs, tiers, strict=True)])
    levels: dict[str, int] = {}
    for tier, share in zip(tiers, shares, strict=True):
        levels.update(_levels_of_tier(by_tier[tier], share))
    return levels


def _levels_of_tier(lanes: Sequence[LaneBuffer], share: int) -> dict[str, int]:
    by_work = {work: [lane for lane in lanes if lane.work is work] for work in WORK_WEIGHTS}
    parts = share_out(share, [(sum(map(_need, by_work[work])), weight) for work, weight in WORK_WEIGHTS.items()])
    levels: dict[str, int] = {}
    for sharing, part in zip(by_work.values(), parts, strict=True):
        if sharing:
            needs = [(_need(lane), max(1, lane.info.weight)) for lane in sharing]
            levels.update(zip([lane.name for lane in sharing], share_out(part, needs), strict=True))
    return levels


def _need(lane: LaneBuffer) -> int:
    return lane.targets[WAITING] + lane.targets[CREDIT]
