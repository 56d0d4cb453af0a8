"""The lanes of a worker: attach, detach, drain into buffers, and track the resulting demand."""

from collections.abc import Callable, Sequence

from dispatcher.engine.buffers import ASKED, CREDIT, WAITING, LaneBuffer
from dispatcher.engine.runs import EnvelopeRun
from dispatcher.engine.shared import EnginePart, Shared
from dispatcher.ports import Delivery, LaneInfo
from dispatcher.scheduling.scheduler import Scheduler
from dispatcher.wire.lease import GivenBack

DRAINED_AT_ONCE, TARGETS_AT_ONCE = 1_000, 50_000
"""Envelopes and targets drained before the engine checks its inbox again. With more, an answer of the ledger would wait
there for too long, and a tier whose credit has run out would be skipped meanwhile."""
DRAIN_TARGETS, DRAIN_ENVELOPES, MAX_DRAIN_TARGETS = 100, 100, 2_000
"""Amount drained from one lane before the next one's turn: DRAIN_ENVELOPES envelopes, bounded in targets."""
DRAIN_AGAIN_S = 0.005
"""Delay before the next drain of a lane that claims to have something and yields nothing."""


class Draining(EnginePart):
    """Drains lanes into their buffers, as far as there is room.

    The lane that delivered least for its weight comes first, so shares hold even if receiving is the bottleneck.
    """

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.scheduler: Scheduler[LaneBuffer] = Scheduler()
        """Lanes that may have something to drain and, as far as we know, have room for it."""
        self.large_lanes = 1
        """Number of lanes that may hold many targets."""
        self._port = shared.ports.lanes
        self._totals = shared.stats.buffers
        self._held = shared.held
        self._over_budget: dict[str, LaneBuffer] = {}
        """Lanes that were refused because the budget of all lanes was used up."""
        self._blocked: set[LaneBuffer] = set()
        """Lanes whose task has no room; each is checked again after a while."""

    def mark(self, lane: LaneBuffer) -> None:
        """Queue the lane for draining: it may have something, and its buffer has room again."""
        if lane.ready and not lane.closing:
            self.scheduler.enter(lane.drain)

    def forget(self, lane: LaneBuffer) -> None:
        """Drain nothing more from the lane."""
        self.scheduler.leave(lane.drain)
        self._over_budget.pop(lane.name, None)

    def fill(self, now_s: float, received: Callable[[LaneBuffer], None]) -> bool:
        """Drain lanes that have something to drain and room for it. Return whether more must be done at once.

        received: called with each lane that yielded something.
        """
        count = 0
        totals = self._totals
        if self._over_budget and totals.targets_in_memory < 0.9 * self._settings.budget_targets:
            for lane in self._over_budget.values():
                self.mark(lane)
            self._over_budget.clear()
        max_targets = totals.targets_in_memory + TARGETS_AT_ONCE
        while count < DRAINED_AT_ONCE and totals.targets_in_memory < max_targets:
            entry = self.scheduler.pick()
            if entry is None:
                return False
            room = self._room(entry.item, now_s)
            entry.item.set_filling(filling=room > 0)
            if room > 0:
                count += self._drain(entry.item, room, received)
            else:
                self.scheduler.leave(entry)
        return True

    def _room(self, lane: LaneBuffer, now_s: float) -> int:
        settings, chunk = self._settings, lane.info.chunk
        roomy = min(settings.lane_roomy_targets, settings.budget_targets // (2 * self.large_lanes))
        limit = min(settings.lane_ceiling_targets, 2 * lane.grants.recent(now_s))
        limit = max(limit, settings.lane_floor_targets, roomy, chunk)
        buffered = lane.targets[WAITING] + lane.targets[ASKED] + lane.targets[CREDIT]
        if self._is_blocked(lane):
            self._recheck_later(lane, now_s)
            return 0
        remaining = settings.budget_targets - self._totals.targets_in_memory
        if remaining <= 0 and any(lane.targets):
            self._over_budget[lane.name] = lane
            return 0
        if limit - buffered > remaining:
            limit = min(limit, buffered + max(remaining, settings.lane_floor_targets))
        if lane.held_envelopes and lane.info.task:
            limit = min(limit, (settings.held_envelopes - lane.held_envelopes) * max(1, chunk))
        room = limit - buffered
        if room <= 0 or lane.filling:
            return room
        # Wait until there is room for a worthwhile amount: a drain of a few envelopes costs too much. Do not wait for
        # more than half the limit, since that much may be in the lease call of a slow ledger.
        worth = max(limit // 8, min(limit // 2, _quantum(lane)))
        return room if room >= worth else 0

    def _is_blocked(self, lane: LaneBuffer) -> bool:
        """Return whether the lane belongs to one task, and no more of that task can be sent or held."""
        task = lane.info.task
        return bool(task) and not (self._unsettled.has_room(task) and self._held.has_room(task))

    def _recheck_later(self, lane: LaneBuffer, now_s: float) -> None:
        if lane not in self._blocked:
            self._blocked.add(lane)
            self._timers.at(now_s + self._settings.held.first_s, lambda: self._unblock(lane))

    def _unblock(self, lane: LaneBuffer) -> None:
        self._blocked.discard(lane)
        self.mark(lane)

    def _drain(self, lane: LaneBuffer, room: int, received: Callable[[LaneBuffer], None]) -> int:
        """Drain one quantum from the lane. Return the number of envelopes."""
        deliveries, empty = self._port.drain(lane.name, min(room, _quantum(lane)))
        if deliveries:
            self.scheduler.charge(lane.drain, self._take(lane, deliveries))
            received(lane)
        if empty or not deliveries:
            lane.drained(empty=empty)
            self.scheduler.leave(lane.drain)
        if not empty and not deliveries:
            self._timers.at(self._clock.monotonic_s() + DRAIN_AGAIN_S, lambda: self.mark(lane))
        return len(deliveries)

    def _take(self, lane: LaneBuffer, deliveries: Sequence[Delivery]) -> int:
        wall_ms = self._clock.wall_ms()
        targets = lane.append(deliveries, wall_ms)
        stats = self._stats
        stats.received += len(deliveries)
        first = deliveries[0]
        received_ms = wall_ms - (self._clock.monotonic_s() - first.received_s) * 1000
        stats.stages["received"].add(received_ms - first.envelope.published_ms, len(deliveries))
        return targets


class WorkingSet(EnginePart):
    """The lane buffers of a worker, and the demand in them."""

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.lanes: dict[str, LaneBuffer] = {}
        """By name."""
        self.with_demand: dict[str, LaneBuffer] = {}
        """Lanes with something to ask for now, by name."""
        self.woken = False
        """True if one of them had nothing to ask for until now."""
        self.eager = False
        """True if one of them is not short of credit; the worker has only not asked for it yet."""
        self.given_back: list[GivenBack] = []
        """Granted envelopes to be returned to the ledger."""
        self._port = shared.ports.lanes
        self._totals = shared.stats.buffers
        self._held = shared.held
        self.drains = Draining(shared)
        self._without_room: dict[str, LaneBuffer] = {}
        """By task: its lane, from which nothing is asked for until outcomes of the task are stored."""
        self._reopen: dict[str, LaneInfo] = {}
        """Closing lanes that are to be attached again once they are detached."""
        self._timers.at(self._clock.monotonic_s() + self._settings.attach_again_s, self._attach_again)

    # ------------------------------------------------------------- which lanes
    def change(self, infos: Sequence[LaneInfo]) -> list[LaneBuffer]:
        """Hold exactly these lanes. Return those whose tier or weight changed."""
        by_name = {info.name: info for info in infos}
        changed = []
        self._reopen.clear()
        for lane in [lane for name, lane in self.lanes.items() if name not in by_name]:
            self.close(lane)
        for info in infos:
            lane_or_none = self.lanes.get(info.name)
            if lane_or_none is None:
                self._attach(info)
            elif lane_or_none.closing:
                self._reopen[info.name] = info
            elif info is not lane_or_none.info and self._update(lane_or_none, info):
                changed.append(lane_or_none)
        self.drains.large_lanes = max(1, sum(not lane.info.nearly_empty for lane in self.lanes.values()))
        return changed

    def close_all(self) -> None:
        self._reopen.clear()
        for lane in list(self.lanes.values()):
            self.close(lane)

    def close(self, lane: LaneBuffer) -> None:
        """Close a lane: send nothing new from it, and detach it once everything under way is settled."""
        if lane.closing:
            return
        self.unpark(lane)
        self.drains.forget(lane)
        self.with_demand.pop(lane.name, None)
        for part in lane.close():
            self._report_unsent(lane, part)
        self.detach_if_done(lane)

    def detach_if_done(self, lane: LaneBuffer) -> None:
        """Detach a closing lane once nothing of it is under way."""
        if lane.closing and lane.is_settled and self.lanes.get(lane.name) is lane:
            self._detach(lane.name)
            info = self._reopen.pop(lane.name, None)
            if info is not None:
                self._attach(info)

    def detach_all(self) -> None:
        """Detach all lanes at once. Unacked envelopes are delivered to other workers."""
        for name in list(self.lanes):
            self._detach(name)

    def _attach(self, info: LaneInfo) -> None:
        self.lanes[info.name] = LaneBuffer(info, self.drains.scheduler, self._totals, self._held)
        self._stats.lanes = len(self.lanes)
        self._port.attach(info, self._prefetch(info))

    def _detach(self, name: str) -> None:
        self._port.detach(name)
        del self.lanes[name]
        self._stats.lanes = len(self.lanes)

    def _prefetch(self, info: LaneInfo) -> int:
        return 0 if info.nearly_empty else self._settings.prefetch_targets

    def _attach_again(self) -> None:
        """Attach lanes that have delivered nothing yet. Such a lane may have been missing before, and may exist now."""
        for lane in self.lanes.values():
            if not lane.delivered and not lane.closing:
                self._port.attach(lane.info, self._prefetch(lane.info))
        self._timers.at(self._clock.monotonic_s() + self._settings.attach_again_s, self._attach_again)

    def _update(self, lane: LaneBuffer, info: LaneInfo) -> bool:
        self.unpark(lane)
        before = lane.info
        lane.update(info)
        if info == before:
            return False
        if before.nearly_empty != info.nearly_empty:
            self._port.attach(info, self._prefetch(info))
        self.drains.scheduler.change(lane.drain, lane.tier, max(1, info.weight))
        return True

    # ------------------------------------------------------------- draining
    def ready(self, name: str) -> None:
        """Record that the lane has something to drain."""
        lane = self.lanes.get(name)
        if lane is not None and not lane.closing:
            lane.announce()
            self.drains.mark(lane)

    def fill(self, now_s: float) -> bool:
        """Drain lanes that have something to drain and room for it. Return whether more must be done at once."""
        if self._without_room:
            self._bring_back()
        return self.drains.fill(now_s, self.note)

    # ------------------------------------------------------------- demand
    def note(self, lane: LaneBuffer, *, wake: bool = True) -> None:
        """Update whether there is something to ask for, after the lane's waiting runs have changed."""
        if lane.closing or lane.parked or not lane.waiting or lane.info.task in self._without_room:
            self.with_demand.pop(lane.name, None)
            return
        first, wall_ms = lane.waiting[0], 0
        if first.not_before_ms:
            wall_ms = self._clock.wall_ms()
            first.limit_due(wall_ms, lane.info.delay_s)
        if first.not_before_ms <= wall_ms:
            if not lane.short:
                self.eager = True
                if wake and not (lane.asked or lane.targets[CREDIT]) and lane.name not in self.with_demand:
                    self.woken = True
            self.with_demand[lane.name] = lane
            return
        self.with_demand.pop(lane.name, None)
        wait_s = (first.not_before_ms - wall_ms) / 1000
        if lane.set_due(first.not_before_ms):
            self._timers.at(self._clock.monotonic_s() + wait_s, lambda: self._due(lane))

    def _due(self, lane: LaneBuffer) -> None:
        lane.set_due(0)
        self.note(lane)

    def hurry(self) -> None:
        """Bring forward the envelopes that wait for the end of a pause of their flow, if somebody has ended it."""
        wall_ms = self._clock.wall_ms()
        for lane in self.lanes.values():
            if lane.waits_for_flow and lane.hurry(self._ports.is_reopened, wall_ms):
                self.note(lane)

    def park(self, lane: LaneBuffer) -> None:
        """Ask for nothing from the lane until the registry changes it, or for a while."""
        if not lane.closing and not lane.parked:
            lane.park()
            self._timers.at(self._clock.monotonic_s() + self._settings.parked_s, lambda: self.unpark(lane))

    def unpark(self, lane: LaneBuffer) -> None:
        if lane.parked:
            lane.unpark()
            self.note(lane)

    def hold(self, lane: LaneBuffer, part: EnvelopeRun) -> None:
        """Hold envelopes that are claimed elsewhere (or similar) and ask for them again after a while. Anything beyond
        the bounds is given back to the broker, so that it does not block what is behind it in a shared lane."""
        settings, room = self._settings, self._holding_room(lane, part)
        if room < part.count:
            kept = part.take(room) if room else None
            self._return(lane, part)
            if kept is None:
                return
            part = kept
        part.hold_s = settings.held.after(part.hold_s)
        lane.hold(part)
        self._timers.at(self._clock.monotonic_s() + part.hold_s, lambda: self._unhold(lane, part))

    def _holding_room(self, lane: LaneBuffer, part: EnvelopeRun) -> int:
        """Return the number of envelopes of `part` that may be held."""
        if not self._held.has_room(part.task):
            return 0
        if lane.info.task:
            return part.count
        return max(0, self._settings.held_envelopes - lane.held_by_task.get(part.task, (0, 0))[0])

    def _return(self, lane: LaneBuffer, part: EnvelopeRun) -> None:
        self._port.give_back(lane.name, part.deliveries)
        lane.drop(part)
        self.drains.mark(lane)

    def wait_for_room(self, lane: LaneBuffer) -> None:
        """Ask for nothing more from the lane of one task until the task has room among the unsettled targets."""
        self._without_room[lane.info.task] = lane

    def _bring_back(self) -> None:
        """Ask for the envelopes of tasks that have room again."""
        for task, lane in list(self._without_room.items()):
            if lane.closing or self._unsettled.has_room(task):
                del self._without_room[task]
                self.note(lane)

    def _unhold(self, lane: LaneBuffer, part: EnvelopeRun) -> None:
        if lane.closing:
            return
        lane.put_back(part)
        self.note(lane, wake=False)
        self.drains.mark(lane)

    def give_back(self, lane: LaneBuffer, part: EnvelopeRun) -> None:
        """Give a grant back unsent: report it to the ledger and ask for it again. Call this from the last run to the
        first."""
        self._report_unsent(lane, part)
        lane.put_back(part)
        self.note(lane, wake=False)

    def _report_unsent(self, lane: LaneBuffer, part: EnvelopeRun) -> None:
        self._stats.given_back += part.targets
        self.given_back.append(
            GivenBack(
                claim=part.claim,
                lane=lane.name,
                task=part.task,
                writer=part.writer,
                attempt=part.attempt,
                first=part.first,
                count=part.count,
                size=part.size,
            )
        )

    # ------------------------------------------------------------- under way
    def take_out(self, lane: LaneBuffer, part: EnvelopeRun) -> None:
        """Take a run out of the buffer, for settling."""
        lane.take_out(part)
        self.drains.mark(lane)

    def return_unsent(self, lane: LaneBuffer, part: EnvelopeRun, now_s: float) -> None:
        """Take a run back that its channel has not begun, and give its grant back.

        If there was time to begin, its flow is closed: it is held, for longer each time, so that it is not granted and
        turned away again and again.
        """
        if lane.closing or part.use_by_s <= now_s + self._settings.use_by_margin_s:
            self.give_back(lane, part)
        else:
            self._report_unsent(lane, part)
            self.hold(lane, part)
        self.detach_if_done(lane)

    def recheck(self, lane: LaneBuffer, part: EnvelopeRun) -> None:
        """Hold a run whose next step is impossible, and ask the ledger about it again: its task may have changed."""
        if lane.closing:
            lane.drop(part)
        else:
            self.hold(lane, part)
        self.detach_if_done(lane)

    def ack(self, lane: LaneBuffer, deliveries: Sequence[Delivery], targets: int) -> None:
        """Ack deliveries: the last step of settling."""
        self._port.ack(lane.name, deliveries)
        lane.ack(targets)
        self._stats.acked += len(deliveries)
        self.drains.mark(lane)
        self.detach_if_done(lane)


def _quantum(lane: LaneBuffer) -> int:
    """Return the targets drained from one lane before the next one's turn."""
    return max(DRAIN_TARGETS, min(DRAIN_ENVELOPES * lane.info.chunk, MAX_DRAIN_TARGETS))
