"""The grace: for a while after Redis is gone a worker goes on at the rate it was last granted, by the control topic.

Nobody shares the capacity out meanwhile, so each worker keeps to what the ledger granted it last: all those rates were
granted under the caps, so their sum is not above them. Nobody claims either: only envelopes that come for the first
time are sent, and their records count by their identity, whatever the ledger knows of their claim.
"""

from collections.abc import Mapping

from dispatcher.buffers import LaneBuffer, Stretch
from dispatcher.engine_lanes import WorkingSet
from dispatcher.engine_sending import Sending
from dispatcher.engine_shared import Shared
from dispatcher.grant_meter import WINDOW_S, GrantMeter, UnderCaps, cap_now, pools_of_task, rate_under
from dispatcher.known_tasks import TOTAL, Controls, KnownTask, is_paused, weights_of
from dispatcher.lease import LaneKind
from dispatcher.scheduler import Flow, Scheduler
from dispatcher.tier import TIERS, Tier

FRESH_S = 2.0
"""The control topic must have been read as far as it went this long ago."""
USE_BY_S = 0.5
LOOK_AGAIN_S = 0.02
LOOKED_AT = 100
"""Stretches of a lane that are looked at for one that may be sent."""


class _Allowance:
    """Of one pool with a cap: `rate` targets/s, saved up for no longer than a window; may go below zero by an
    envelope."""

    __slots__ = ("cap", "level", "rate")

    def __init__(self, cap: int, rate: float, level: float) -> None:
        self.cap = cap
        self.rate = rate
        self.level = level

    def refill(self, elapsed_s: float) -> None:
        self.level = min(self.level + self.rate * elapsed_s, self.rate * WINDOW_S)


class _Sent:
    """Identities sent in this grace: bits by sequence, for each task and writer."""

    def __init__(self) -> None:
        self._bits: dict[tuple[str, str], bytearray] = {}

    def has(self, part: Stretch, sequence: int) -> bool:
        bits = self._bits.get((part.task, part.writer))
        return bits is not None and sequence >> 3 < len(bits) and bool(bits[sequence >> 3] & 1 << (sequence & 7))

    def add(self, part: Stretch) -> None:
        bits = self._bits.setdefault((part.task, part.writer), bytearray())
        last = part.first + part.count - 1
        if last >> 3 >= len(bits):
            bits.extend(bytes((last >> 3) + 1 - len(bits)))
        for sequence in range(part.first, last + 1):
            bits[sequence >> 3] |= 1 << (sequence & 7)


class Grace:
    """lost: the ledger does not answer (whether or not the grace lasts). active: envelopes are sent without it."""

    def __init__(self, shared: Shared, controls: Controls | None, working: WorkingSet, sending: Sending) -> None:
        self.lost = False
        self.meter = GrantMeter(controls)
        self.claim = f"{shared.settings.worker}.grace"
        self._settings = shared.settings
        self._controls = controls
        self._working = working
        self._sending = sending
        self._clock = shared.clock
        self._stats = shared.stats
        self._since_s = self._until_s = self._filled_s = 0.0
        self._allowances: dict[str, _Allowance] = {}
        self._granted: Mapping[str, UnderCaps] = {}
        self._scheduler: Scheduler[LaneBuffer] = Scheduler()
        self._flows: dict[str, Flow[LaneBuffer]] = {}
        self._sent = _Sent()

    @property
    def active(self) -> bool:
        return bool(self._stats.in_grace)

    @property
    def possible(self) -> bool:
        return self._controls is not None and self._settings.grace_s > 0

    def begin(self, asked_s: float, now_s: float) -> None:
        """The ledger has left a call unanswered that was made at asked_s; every lease has ended."""
        self.lost = True
        self._since_s, self._filled_s, self._until_s = asked_s, now_s, now_s + self._settings.grace_s
        self._granted = self.meter.under_caps(asked_s)
        self._allowances, self._flows, self._sent = {}, {}, _Sent()
        self._scheduler = Scheduler()
        self._stats.in_grace = 1
        if self._controls is not None:
            self._controls.attend(True)

    def end(self) -> None:
        """The ledger answers again."""
        self.lost = False
        self._stop()

    def _stop(self) -> None:
        if self._controls is not None and self.active:
            self._controls.attend(False)
        self._stats.in_grace = 0

    # ------------------------------------------------------------- what may be sent now
    def advance(self, now_s: float) -> float | None:
        """Grants what the allowances let through. Returns when to look again (None: not for its sake)."""
        controls = self._controls
        if not self.active or controls is None:
            return None
        if now_s >= self._until_s:
            self._stop()
            return None
        read_s = controls.read_until_s()
        if read_s >= max(self._since_s, now_s - FRESH_S):
            self._grant_all(controls, now_s)
        return min(self._until_s, now_s + LOOK_AGAIN_S)

    def _grant_all(self, controls: Controls, now_s: float) -> None:
        total = self._allowance(controls, TOTAL)
        for allowance in self._allowances.values():
            allowance.refill(now_s - self._filled_s)
        self._filled_s = now_s
        self._line_up(controls)
        while total is not None and total.level > 0:
            flow = self._scheduler.pick()
            if flow is None:
                return
            part = self._take(flow.item, controls)
            if part is None:
                self._scheduler.leave(flow)
                continue
            self._scheduler.charge(flow, part.targets)
            self._grant(flow.item, part, controls, now_s)

    def _line_up(self, controls: Controls) -> None:
        """Every lane that has something, with its weight as the control topic has it."""
        weights = weights_of(controls)
        self._scheduler.set_tier_weights({tier: max(1, weights[tier]) for tier in TIERS})
        for lane in self._working.wanting.values():
            if lane.is_retry:
                continue
            task = controls.task(lane.info.task) if lane.info.task else None
            tier, weight = (Tier(task.tier), task.weight) if task else (lane.tier, lane.info.weight)
            flow = self._flows.get(lane.name)
            if flow is None or flow.item is not lane:
                flow = self._flows[lane.name] = self._scheduler.flow(lane, tier, max(1, weight))
            self._scheduler.change(flow, tier, max(1, weight))
            self._scheduler.enter(flow)

    def _take(self, lane: LaneBuffer, controls: Controls) -> Stretch | None:
        """The first envelopes of the lane that may be sent. Those that may not before the ledger is back are held."""
        now_ms, place = self._clock.wall_ms(), 0
        while place < min(LOOKED_AT, len(lane.waiting)):
            part = lane.waiting[place]
            task = controls.task(part.task)
            if part.not_before_ms > now_ms:
                place += 1
            elif task is None or part.attempt or part.hold_s or not self._is_here(lane, part, task, now_ms):
                self._hold(lane, self._cut(lane, place, part.count))
            elif not self._has_credit(task, controls):
                place += 1
            else:
                first, count = self._first_ones(part, self._most(part, task, controls))
                if first:
                    return self._cut(lane, place, count)
                self._hold(lane, self._cut(lane, place, count))
        return None

    def _hold(self, lane: LaneBuffer, part: Stretch) -> None:
        self._working.hold(lane, part)
        self._working.thirst(lane)

    def _is_here(self, lane: LaneBuffer, part: Stretch, task: KnownTask, now_ms: int) -> bool:
        here = task.lane == lane.name or lane.info.kind == LaneKind.SIDE
        return here and task.may_be_sent(part.writer, now_ms)

    def _has_credit(self, task: KnownTask, controls: Controls) -> bool:
        if is_paused(controls, task.channel):
            return False
        pools = (self._allowance(controls, pool, task.id) for pool in pools_of_task(task.id, task.app, task.channel))
        return all(pool is None or pool.level > 0 for pool in pools)

    def _most(self, part: Stretch, task: KnownTask, controls: Controls) -> int:
        """Envelopes of one grant: a quantum, and no more than the pools hold."""
        targets = float(self._settings.quantum_targets)
        for name in pools_of_task(task.id, task.app, task.channel):
            pool = self._allowance(controls, name, task.id)
            targets = targets if pool is None else min(targets, pool.level)
        return max(1, int(targets) // max(1, part.size))

    def _first_ones(self, part: Stretch, most: int) -> tuple[bool, int]:
        """Whether the head of `part` comes for the first time, and for how many (at most `most`) the same holds."""
        is_first = self._working.is_first
        wanted = None
        for index, delivery in enumerate(part.deliveries):
            first = not self._sent.has(part, part.first + index) and is_first(delivery)
            if wanted is None:
                wanted = first
            elif first != wanted or (first and index >= most):
                return wanted, index
        return bool(wanted), min(most, part.count) if wanted else part.count

    def _cut(self, lane: LaneBuffer, place: int, count: int) -> Stretch:
        part = lane.waiting[place]
        head = part.take(count)
        if head is part:
            del lane.waiting[place]
        lane.waiting_targets -= head.targets
        self._working.note(lane, wake=False)
        return head

    def _grant(self, lane: LaneBuffer, part: Stretch, controls: Controls, now_s: float) -> None:
        task = controls.task(part.task)
        if task is not None:
            for name in pools_of_task(task.id, task.app, task.channel):
                pool = self._allowance(controls, name, task.id)
                if pool is not None:
                    pool.level -= part.targets
            self._edit(task)
        self._sent.add(part)
        self._stats.grace_targets += part.targets
        self._sending.grant(lane, part.granted(self.claim, now_s + USE_BY_S, now_s))

    def _edit(self, task: KnownTask) -> None:
        if task.override and self._sending.overrides.get(task.id) != task.override:
            self._sending.overrides = {**self._sending.overrides, task.id: task.override}

    # ------------------------------------------------------------- allowances
    def _allowance(self, controls: Controls, pool: str, task: str = "") -> _Allowance | None:
        """None: the pool does not bind."""
        cap = cap_now(controls, pool, task)
        if pool != TOTAL and not cap:
            return None
        allowance = self._allowances.get(pool)
        if allowance is None or allowance.cap != cap:
            level = 0.0 if allowance is None else allowance.level
            allowance = self._allowances[pool] = _Allowance(cap, rate_under(self._granted.get(pool, {}), cap), level)
        return allowance
