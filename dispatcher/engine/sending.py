"""Turn credit into batches: the scheduler picks for as long as a channel has room."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import msgspec

from dispatcher.analysis.send_errors import MAX_TASKS
from dispatcher.engine.buffers import CREDIT, Credit, LaneBuffer
from dispatcher.engine.events import BatchSent
from dispatcher.engine.lanes import WorkingSet
from dispatcher.engine.rhythm import RateWindow
from dispatcher.engine.runs import EnvelopeRun
from dispatcher.engine.settling import Settling
from dispatcher.engine.shared import EnginePart, Shared
from dispatcher.ports import Batch, Delivery
from dispatcher.scheduling.scheduler import Scheduler
from dispatcher.settle import match
from dispatcher.wire.outcome import ALL_SENT, UNSENT, Report

MAX_IDLE_FLOWS = 64
"""Maximum flows remembered. Beyond it, flows with nothing under way are forgotten, and with them a lane's lead
(at most one batch)."""

LONG_IN_CHANNEL_S = 1.0
"""Time in the channel after which it is reported as a cause of the task's delay. Most channels take less."""


class PickedBatch(Batch, gc=False, kw_only=True):
    """A batch and the engine's own data about it, used when it returns."""

    buffer: LaneBuffer
    parts: list[EnvelopeRun]
    sent_s: float = 0.0


@dataclass(slots=True, eq=False)
class _Load:
    """The batches and targets under way in one flow, and their limits."""

    batch_limit: int
    max_batches: int
    max_targets: int
    batches: int = 0
    targets: int = 0

    def add(self, batches: int, targets: int) -> bool:
        """Count started batches and their targets; negative numbers count finished ones. Return whether the flow has
        room for more."""
        self.batches += batches
        self.targets += targets
        return self.batches < self.max_batches and self.targets < self.max_targets


class Sending(EnginePart):
    """Credit of all lanes, the scheduler that picks among them, and the batches under way."""

    def __init__(self, shared: Shared, working: WorkingSet, settling: Settling) -> None:
        super().__init__(shared)
        self._courier = shared.ports.courier
        self._working = working
        self._settling = settling
        self._loads: dict[str, _Load] = {}
        self._under_way: dict[int, PickedBatch] = {}
        self._sent = RateWindow()
        self.scheduler: Scheduler[Credit] = Scheduler()
        self.overrides: Mapping[str, bytes] = {}
        """Task -> message to send instead of the one in its envelopes."""
        self._without_room: dict[Credit, None] = {}
        """Credit of tasks whose outcomes are not stored."""

    # ------------------------------------------------------------- credit
    def grant(self, lane: LaneBuffer, part: EnvelopeRun) -> None:
        """Add granted envelopes to the credit. `part` carries its claim and use-by. One without a target that may be
        sent is settled at once, as is one that is damaged."""
        if part.damage:
            self._working.take_out(lane, part)
            self._settling.set_apart(lane, part, part.damage)
            return
        if part.groups is not None and not part.called():
            self._working.take_out(lane, part)
            self._settling.reported(lane, part, [ALL_SENT] * part.count)
            return
        now_s = self._clock.monotonic_s()
        flow = self._courier.flow(part.channel, part.deliveries[0].envelope.app)
        credit = lane.grant(part, flow, self.scheduler, now_s)
        self.scheduler.enter(credit.entry)
        self._stats.tiers[lane.tier].granted += part.targets
        self._stats.stages["leased"].add((now_s - part.deliveries[0].received_s) * 1000, part.count)

    def retune(self, lanes: Iterable[LaneBuffer]) -> None:
        """Apply the changed tier or weight of these lanes."""
        for lane in lanes:
            for credit in lane.credit.values():
                self.scheduler.change(credit.entry, lane.tier, max(1, lane.info.weight))

    def recent(self, now_s: float) -> int:
        """Return the targets sent in the last half second."""
        return self._sent.recent(now_s)

    def in_channels(self, now_s: float) -> dict[str, int]:
        """Return by task how many ms its oldest batch has been in its channel, for batches older than a second."""
        waits: dict[str, int] = {}
        for batch in self._under_way.values():  # in order of their start
            if now_s - batch.sent_s < LONG_IN_CHANNEL_S or len(waits) >= MAX_TASKS:
                break
            for part in batch.parts:
                waits.setdefault(part.task, round((now_s - batch.sent_s) * 1000))
        return waits

    def expire(self, now_s: float) -> None:
        """Take back all credit near its use-by, even where a channel has no room."""
        for lane in self._working.lanes.values():
            if lane.targets[CREDIT]:
                for credit in lane.credit.values():
                    self._expire(credit, now_s)
            if len(lane.credit) > MAX_IDLE_FLOWS:
                lane.forget_idle_flows()
        if len(self._loads) > MAX_IDLE_FLOWS:
            self._loads = {name: load for name, load in self._loads.items() if load.batches}

    def revoke(self, now_s: float) -> None:
        """Take back all credit, and batches that channels have not started."""
        for batch in self._under_way.values():
            batch.use_by_s = min(batch.use_by_s, now_s)
        for lane in self._working.lanes.values():
            for credit in lane.credit.values():
                for part in credit.queue:
                    part.use_by_s = min(part.use_by_s, now_s)
        self.expire(now_s)

    def _expire(self, credit: Credit, now_s: float) -> None:
        """Give back credit near its use-by: a call that starts too late must not be made."""
        self._give_back(credit, credit.pop_late(now_s + self._settings.use_by_margin_s))

    def _set_aside(self, credit: Credit) -> None:
        """Set credit of a task without room aside until the task has room, or the use-by is near. In a lane of many
        tasks, give it back, so that others behind it may be sent."""
        if credit.lane.info.task:
            self._without_room[credit] = None
            self.scheduler.leave(credit.entry)
        else:
            self._give_back(credit, credit.pop_blocked(self._unsettled.has_room))

    def _bring_back(self) -> None:
        """Let the scheduler pick credit of tasks that have room again."""
        for credit in list(self._without_room):
            if not credit.queue or self._unsettled.has_room(credit.queue[0].task):
                del self._without_room[credit]
                if credit.queue:
                    self.scheduler.enter(credit.entry)

    def _give_back(self, credit: Credit, parts: Sequence[EnvelopeRun]) -> None:
        """Give back runs that have already left the queue."""
        for part in reversed(parts):
            self._working.give_back(credit.lane, part)
        if not credit.queue:
            self.scheduler.leave(credit.entry)

    # ------------------------------------------------------------- picks
    def pump(self, now_s: float) -> None:
        """Hand granted envelopes to their channels, in batches, until all are handed over or no channel has room."""
        if self._without_room:
            self._bring_back()
        pick, charge, has_room = self.scheduler.pick, self.scheduler.charge, self._unsettled.has_room
        is_roomy = self._unsettled.is_roomy  # nothing is settled meanwhile
        while (entry := pick()) is not None:
            credit = entry.item
            if not credit.queue or credit.queue[0].use_by_s <= now_s + self._settings.use_by_margin_s:
                self._expire(credit, now_s)
                continue
            if not (is_roomy or has_room(credit.queue[0].task)):
                self._set_aside(credit)
                continue
            batch = self._batch(credit)
            charge(entry, batch.targets)
            if not credit.queue:
                self.scheduler.leave(entry)
            self._send(batch, now_s)

    def _batch(self, credit: Credit) -> PickedBatch:
        flow = credit.entry.group
        load = self._loads.get(flow) or self._load(flow, credit.queue[0].channel)
        lane, parts = credit.lane, credit.take(load.batch_limit, self._settings.quantum_targets)
        first, alone = parts[0], len(parts) == 1
        return PickedBatch(
            lane=lane.name,
            claim=first.claim,
            channel=first.channel,
            flow=flow,
            deliveries=self._deliveries(first) if alone else list(chain.from_iterable(map(self._deliveries, parts))),
            use_by_s=first.use_by_s,
            leased_s=first.leased_s,
            targets=first.targets if alone else sum([part.targets for part in parts]),
            tier=str(lane.tier),
            buffer=lane,
            parts=parts,
        )

    def _deliveries(self, part: EnvelopeRun) -> list[Delivery]:
        """Return the deliveries for the channel, with the override message if there is one. The envelopes themselves do
        not change: a worker that sends them later knows the latest override."""
        deliveries = part.deliveries if part.groups is None else _due_part(part, part.called())
        message = self.overrides.get(part.task)
        return deliveries if message is None else _edited(deliveries, msgspec.Raw(message))

    def _send(self, batch: PickedBatch, now_s: float) -> None:
        batch.sent_s = now_s
        if not self._count_load(batch, 1):
            self.scheduler.close(batch.flow)
        self._working.drains.mark(batch.buffer)
        self._under_way[id(batch)] = batch
        self._courier.send(batch, self._report)

    def _load(self, flow: str, channel: str) -> _Load:
        """Return the load of a flow that had nothing under way so far."""
        settings = self._settings
        max_batches = settings.channel_batches.get(channel, settings.in_flight_batches)
        max_targets = settings.channel_targets.get(channel, settings.in_flight_targets)
        batch_limit = max(1, self._courier.batch_limit(channel))
        load = self._loads[flow] = _Load(batch_limit, max_batches, max_targets)
        return load

    def _report(self, batch: Batch, reports: Sequence[Report | None]) -> None:
        """Report a finished batch. The courier calls this from any thread."""
        self._inbox.put(BatchSent(batch, reports))

    # ------------------------------------------------------------- finished batches
    def sent(self, event: BatchSent, now_s: float, wall_ms: int) -> None:
        """Settle the reports of a finished batch and return what was not sent."""
        batch = event.batch
        if not isinstance(batch, PickedBatch):
            raise TypeError("The courier must return the batch object that it was given.")
        del self._under_way[id(batch)]
        if self._count_load(batch, -1):
            self.scheduler.open(batch.flow)
        lane = batch.buffer
        unsent: list[EnvelopeRun] = []
        for part, reports in match(batch.parts, event.reports):
            if reports is None:
                unsent.append(part)
                continue
            self._count(part, reports, batch, now_s, wall_ms)
            self._settling.reported(lane, part, reports)
        for part in reversed(unsent):
            self._working.return_unsent(lane, part, now_s)

    def _count_load(self, batch: PickedBatch, batches: int) -> bool:
        """Count a batch that starts (1) or has finished (-1). Return whether its flow has room for more."""
        stats, targets = self._stats, batches * batch.targets
        stats.in_flight_batches += batches
        stats.in_flight_targets += targets
        return self._loads[batch.flow].add(batches, targets)

    def _count(
        self, part: EnvelopeRun, reports: Sequence[Report], batch: PickedBatch, now_s: float, wall_ms: int
    ) -> None:
        self._sent.add(part.targets, now_s)
        counts = self._stats.tiers[batch.buffer.tier]
        counts.sent += part.targets - sum([_unsent(report, part.size) for report in reports if report is not ALL_SENT])
        counts.envelopes += part.count
        counts.wait.add_published(part, wall_ms)
        self._stats.stages["sent"].add((now_s - batch.leased_s) * 1000, part.count)


def _unsent(report: object, targets: int) -> int:
    """Return how many of an envelope's targets the provider cannot have taken; 0 for a report that settling refuses."""
    match report:
        case Report(verdict=verdict, exceptions=dict() | None as exceptions):
            codes = [getattr(each, "code", None) for each in (exceptions or {}).values()]
            rest = targets - len(codes) if getattr(verdict, "code", None) == UNSENT else 0
            return codes.count(UNSENT) + max(0, rest)
    return 0


def _due_part(part: EnvelopeRun, called: Sequence[int]) -> list[Delivery]:
    """Return the deliveries of a later round, with the targets that are sent in it."""
    if len(called) == part.open:
        return part.deliveries
    return [
        Delivery(delivery.envelope.part(called), delivery.handle, delivery.received_s) for delivery in part.deliveries
    ]


def _edited(deliveries: list[Delivery], override: msgspec.Raw) -> list[Delivery]:
    return [
        Delivery(msgspec.structs.replace(delivery.envelope, message=override), delivery.handle, delivery.received_s)
        for delivery in deliveries
    ]
