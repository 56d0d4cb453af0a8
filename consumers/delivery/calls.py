"""The calls of one channel, from waiting to settled. All of this runs in the courier's event loop."""

import asyncio
import logging
import math
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import NamedTuple, cast

from consumers.delivery.fleet_gate import LONGEST_WAIT_S, SHORTEST_WAIT_S, FleetGate
from consumers.delivery.flow_figures import FlowFigures
from consumers.delivery.loop_watch import CHANNEL
from consumers.delivery.pending import Call, CallPart, FaultLog, FinishedBatches, PendingBatch, Sent, hand_over, is_late
from dispatcher.channels.calls import ProviderCall
from dispatcher.channels.guards.door import Load, StallWatch
from dispatcher.channels.guards.trouble import KEPT_S, Trouble
from dispatcher.clock import Clock
from dispatcher.model.flow_pause import flow_name
from dispatcher.ports import AnyChannel, Batch, BatchChannel
from dispatcher.verdicts import all_sent, error_text, read_reports
from dispatcher.wire.envelope import Envelope
from dispatcher.wire.outcome import Report

SERVED_WITHIN_S = 0.005
"""How long one task makes calls that finish immediately, before other channels and timers get a turn."""
MAX_CALL_TARGETS = 500
"""Maximum targets of a call to a TargetChannel, unless one envelope has more: each target is a request."""
_log = logging.getLogger(__name__)


class PacedCall(NamedTuple):
    """A part that leaves now, with what its flow's caps count of it."""

    part: CallPart
    flow: str
    load: Load


@dataclass(slots=True, eq=False)
class _Line:
    """Parts of one flow, in order."""

    parts: deque[CallPart] = field(default_factory=deque)
    next_s: float = 0.0
    """Monotonic time before which the door need not be asked."""


class PacedParts:
    """Waiting parts, each a single envelope, by flow. The flows take turns."""

    def __init__(self, channel: str, targets_per_request: int, gate: FleetGate, clock: Clock) -> None:
        self._channel = channel
        self._targets_per_request = targets_per_request
        self._gate = gate
        self._clock = clock
        self._lines: defaultdict[str, _Line] = defaultdict(_Line)
        self.count = 0

    def paces(self, app: str) -> bool:
        """Return whether an app's envelopes must wait for the door of a cap.

        If it was removed, those that wait still are given back, and others do not wait for them.
        """
        return self._gate.is_paced(flow_name(self._channel, app))

    def add(self, part: CallPart) -> None:
        """Let a part wait behind those of its flow."""
        self._lines[flow_name(self._channel, part.envelopes[0].app)].parts.append(part)
        self.count += 1

    def late(self, is_late: Callable[[CallPart], bool]) -> Iterator[CallPart]:
        """Remove and yield the parts whose time is over. The first of a flow are the oldest."""
        for flow, line in list(self._lines.items()):
            while line.parts and is_late(line.parts[0]):
                yield self._pop(flow, line)

    def turn(self, tier: str = "") -> PacedCall | None:
        """Remove and return a part that leaves now; None if no door is open. tier: only one of this tier, if set."""
        now_s = self._clock.monotonic_s()
        for flow, line in list(self._lines.items()):
            if line.next_s > now_s or tier not in ("", line.parts[0].pending.batch.tier):
                continue
            load = self._load(line.parts[0].envelopes[0])
            wait_s = self._gate.wait_s(flow, load)
            if wait_s <= 0.0:
                part = self._pop(flow, line)
                if line.parts:  # the others' turn
                    self._lines[flow] = self._lines.pop(flow)
                return PacedCall(part, flow, load)
            line.next_s = now_s + min(max(wait_s, SHORTEST_WAIT_S), LONGEST_WAIT_S)
        return None

    def wait_s(self) -> float:
        """Return how long no door need be asked, while parts wait."""
        next_s = min(line.next_s for line in self._lines.values())
        return min(max(next_s - self._clock.monotonic_s(), SHORTEST_WAIT_S), LONGEST_WAIT_S)

    def clear(self) -> Iterator[CallPart]:
        """Remove and yield all parts."""
        return self.late(lambda _: True)

    def _pop(self, flow: str, line: _Line) -> CallPart:
        part = line.parts.popleft()
        self.count -= 1
        if not line.parts:
            del self._lines[flow]
        return part

    def _load(self, envelope: Envelope) -> Load:
        targets, per_request = len(envelope.targets), self._targets_per_request
        return Load(targets, -(-targets // per_request) if per_request else 1)


class CallSlot:
    """A slot and its task, which makes one call after the other."""

    __slots__ = ("call", "quick", "task", "until_s")

    def __init__(self, call: Call) -> None:
        self.task: asyncio.Task[None] | None = None
        self.begin(call)

    def begin(self, call: Call) -> None:
        """Make the next call."""
        self.call = call
        self.quick = True
        """True while the call was not late and did not yield to the event loop."""
        self.until_s = math.inf
        """When the call ends, by the loop's clock."""

    @property
    def is_cancelled(self) -> bool:
        """Whether the task was cancelled, also if the channel's code went on. Then it makes no further call."""
        return self.task is not None and self.task.cancelling() > 0


class Slots:
    """The slots in use. One timer serves all, since all calls have the same time limit."""

    def __init__(
        self, timeout_s: float, loop: asyncio.AbstractEventLoop, timed_out: Callable[[CallSlot], None]
    ) -> None:
        self.in_use: set[CallSlot] = set()
        self._timeout_s = timeout_s
        self._loop = loop
        self._timed_out = timed_out
        self._timer: asyncio.TimerHandle | None = None

    def limit(self, slot: CallSlot) -> None:
        """Let the slot's call end after the time limit."""
        slot.until_s = self._loop.time() + self._timeout_s
        if self._timer is None:
            self._timer = self._loop.call_at(slot.until_s, self._look)

    def close(self) -> None:
        """End no more calls."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        """End the calls whose time is over, and look again when that of the next is."""
        now_s = self._loop.time()
        for slot in [slot for slot in self.in_use if slot.until_s <= now_s]:
            slot.until_s = math.inf
            self._timed_out(slot)
        next_s = min([slot.until_s for slot in self.in_use], default=math.inf)
        self._timer = self._loop.call_at(next_s, self._look) if next_s < math.inf else None


class ChannelLoad(NamedTuple):
    """The calls and targets of a channel, in progress and waiting."""

    calls: int = 0
    """Calls in progress."""
    waiting: int = 0
    """Calls waiting for a free slot."""
    targets: int = 0
    """Targets of both."""


class ChannelQueue:
    """Calls of one channel, started in order, `channel.concurrency` at once."""

    def __init__(
        self,
        channel: AnyChannel,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        gate: FleetGate,
        figures: FlowFigures | None = None,
    ) -> None:
        """`figures`: those of the flow; None if the channel keeps them itself."""
        self.channel = channel
        self._figures = figures
        self._gate = gate
        self._asks_gate = hasattr(channel, "use")
        """Whether the channel has the worker's gate and asks it before each request."""
        self.timeout_s = channel.timeout_s
        self.call_limit = max(1, channel.batch_limit)
        self._by_target: Callable[[ProviderCall], Awaitable[None]] | None = getattr(channel, "deliver_targets", None)
        self._loop = loop
        self._clock = clock
        self._context = copy_context()
        self._context.run(CHANNEL.set, channel)
        self.calls_settled = 0
        """Number of calls settled so far."""
        self._unreported: dict[PendingBatch, None] = {}
        """Batches in order of arrival."""
        self._finished = FinishedBatches(loop)
        self._waiting: deque[CallPart] = deque()
        self._paced = PacedParts(channel.name, targets_per_request(channel), gate, clock)
        """Those that wait for the door of a cap, behind `_waiting`."""
        self._paced_first = False
        self._door_timer: asyncio.TimerHandle | None = None
        self._stalls = StallWatch()
        self._slots = Slots(self.timeout_s, loop, self._timed_out)
        self._running = self._slots.in_use
        self._targets = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._ended = False
        self._quick = False
        """Whether the last calls finished as soon as they were started."""
        self._faults = FaultLog(channel.name)

    @property
    def in_flight(self) -> ChannelLoad:
        return ChannelLoad(len(self._running), len(self._waiting) + self._paced.count, self._targets)

    def oldest(self) -> PendingBatch | None:
        """Return the batch that has waited longest for its report, or None. May be called from any thread."""
        try:
            return next(iter(self._unreported), None)
        except RuntimeError:  # it changed while being read, so the channel is working
            return None

    def put(self, batch: Batch, sent: Sent) -> None:
        """Split the batch into calls. If calls take time, start them here, concurrently; if not, `start` starts
        them."""
        envelopes = [delivery.envelope for delivery in batch.deliveries]
        starts = range(0, len(envelopes), self.call_limit)
        pending = PendingBatch(batch, sent, len(starts), self._clock.monotonic_s())
        if not envelopes or self._ended:
            hand_over(batch, sent, pending.reports)
            return
        self._targets += batch.targets
        self._unreported[pending] = None
        self._idle.clear()
        for start in starts:
            self._wait(CallPart(pending, start, envelopes[start : start + self.call_limit]))
        if not self._quick:
            self.start()

    def _wait(self, part: CallPart) -> None:
        """Let a part wait for a call. One of capped flows waits for their doors, each envelope by itself."""
        is_paced = self._gate.any_paced() and not self._asks_gate
        if not is_paced or not any(self._paced.paces(app) for app in {envelope.app for envelope in part.envelopes}):
            self._waiting.append(part)
            return
        part.pending.missing += len(part.envelopes) - 1
        for index, envelope in enumerate(part.envelopes):
            self._paced.add(CallPart(part.pending, part.start + index, [envelope]))

    async def idle(self, deadline_s: float) -> bool:
        """Wait until no call is in progress or waiting. Return False at the deadline."""
        try:
            await asyncio.wait_for(self._idle.wait(), deadline_s)
        except TimeoutError:
            return False
        return True

    async def abort(self) -> None:
        """End the remaining calls: waiting calls count as never started, calls in progress as unanswered."""
        self._ended = True
        while self._waiting:
            self._settle_part(self._waiting.popleft(), None)
        for part in self._paced.clear():
            self._settle_part(part, None)
        if self._door_timer is not None:
            self._door_timer.cancel()
        self._slots.close()
        tasks = [slot.task for slot in self._running if slot.task is not None]
        for slot in list(self._running):
            self._give_up(slot, "the worker stopped during the call")
        if tasks:
            await asyncio.wait(tasks, timeout=1.0)
        self.hand_over()

    def hand_over(self) -> None:
        """Hand the reports of finished batches to the engine now, as the event loop may turn no more."""
        self._finished.hand_over()

    # ------------------------------------------------------------- calls
    def start(self) -> None:
        """Start as many calls as there are free slots. While calls finish immediately, start only one, whose task also
        makes the others."""
        slots = 1 if self._quick else self._limit()
        while (self._waiting or self._paced.count) and len(self._running) < slots:
            call = self._next_call()
            if call is None:
                break
            slot = CallSlot(call)
            self._running.add(slot)
            slot.task = self._loop.create_task(self._serve(slot), context=self._context.copy())
            slot.task.add_done_callback(partial(self._free, slot))
        if self._paced.count:
            self._look_at_doors_again()
        elif not self._running and not self._waiting:
            self._idle.set()

    def _limit(self) -> int:
        """Return how many calls may be in progress: fewer while the provider answers slowly."""
        most = self.channel.concurrency
        return most if self._figures is None else min(most, self._figures.limit.limit)

    def _look_at_doors_again(self) -> None:
        if self._door_timer is None:
            self._door_timer = self._loop.call_later(self._paced.wait_s(), self._doors_opened)

    def _doors_opened(self) -> None:
        self._door_timer = None
        self.start()

    def _next_call(self) -> Call | None:
        """Return the next call; None if only late parts were left, and those that wait for the door of a cap.

        Calls of flows with and without a cap take turns.
        """
        if not self._paced.count:
            return self._first_waiting()
        self._paced_first = not self._paced_first
        if self._paced_first:
            return self._paced_call() or self._first_waiting()
        return self._first_waiting() or self._paced_call()

    def _paced_call(self) -> Call | None:
        """Return a call with envelopes that their caps let leave now; None if there are none."""
        parts, loads, now_s = list[CallPart](), dict[str, Load](), self._clock.monotonic_s()
        for part in self._paced.late(lambda part: is_late(part.pending.batch.use_by_s, now_s)):
            self._settle_part(part, None)
        while len(parts) < self.call_limit and (turn := self._paced.turn(parts[0].pending.batch.tier if parts else "")):
            open_parts = self._open_parts(turn.part)
            parts += open_parts
            if open_parts:
                loads[turn.flow] = turn.load.plus(loads.get(turn.flow))
        return Call(parts, loads) if parts else None

    def _first_waiting(self) -> Call | None:
        """Return the next call of parts that need not pass a door; None if only late ones were left.

        It takes parts of one tier from the front of the queue, within the channel's limit. It skips none that is in
        time, since their order is the scheduler's.
        """
        parts: list[CallPart] = []
        room, now_s, waiting = self.call_limit, self._clock.monotonic_s(), self._waiting
        targets, all_open = 0, self._asks_gate or not self._gate.any_closed()
        while waiting:
            batch, count = waiting[0].pending.batch, len(waiting[0].envelopes)
            if parts and (count > room or batch.tier != parts[0].pending.batch.tier):
                break
            if self._by_target is not None:
                targets += sum([len(envelope.targets) for envelope in waiting[0].envelopes])
                if parts and targets > MAX_CALL_TARGETS:
                    break
            part = waiting.popleft()
            if is_late(batch.use_by_s, now_s):
                self._settle_part(part, None)
            else:
                parts += (part,) if all_open else self._open_parts(part)
                room -= count
        return Call(parts) if parts else None

    def _open_parts(self, part: CallPart) -> list[CallPart]:
        """Return the parts of this part whose apps may send now. The rest counts as not started if its flow opens
        soon; otherwise it is put off until the end of the pause."""
        if self._asks_gate or not self._gate.any_closed():
            return [part]
        name, apps = self.channel.name, {envelope.app for envelope in part.envelopes}
        closed = {app: trouble for app in apps if (trouble := self._gate.closed(flow_name(name, app))) is not None}
        runs = [(trouble, list(run)) for trouble, run in groupby(part.envelopes, lambda each: closed.get(each.app))]
        part.pending.missing += len(runs) - 1
        open_parts, start = list[CallPart](), part.start
        for trouble, envelopes in runs:
            piece = CallPart(part.pending, start, envelopes)
            start += len(envelopes)
            if trouble is None:
                open_parts.append(piece)
            else:
                self._settle_part(piece, _put_off(trouble, len(envelopes)))
        return open_parts

    async def _serve(self, slot: CallSlot) -> None:
        """Make the call and those after it: for a time while all finish immediately, and while there is room if not.

        A task costs about 30 us, which is more than a call with one envelope costs.
        """
        waits = self._loop.call_soon(self._yielded, slot)
        until_s = self._clock.monotonic_s() + SERVED_WITHIN_S
        try:
            while True:
                call, reports = slot.call, await self._answer(slot)
                if not call.settled:
                    self._settle(call, reports)
                was_quick, next_call = slot.quick, self._call_after(slot, until_s)
                if next_call is None:
                    break
                slot.begin(next_call)
                if not was_quick:
                    waits = self._loop.call_soon(self._yielded, slot)
                    until_s = self._clock.monotonic_s() + SERVED_WITHIN_S
        finally:
            waits.cancel()
        self._quick = all(other.quick for other in self._running)

    def _call_after(self, slot: CallSlot, until_s: float) -> Call | None:
        """Return the call that the slot's task makes next; None if another task makes it, or there is none."""
        if self._ended or slot.is_cancelled:
            return None
        if slot.quick:
            on = len(self._running) == 1 and self._clock.monotonic_s() < until_s
        else:
            on = len(self._running) <= self._limit()
        return self._next_call() if on else None

    def _yielded(self, slot: CallSlot) -> None:
        """Record that a call has yielded to the event loop, and use the other slots for the calls behind it."""
        slot.quick = self._quick = False
        self._slots.limit(slot)
        if self._waiting or self._paced.count:
            self.start()

    def _free(self, slot: CallSlot, _task: object) -> None:
        """Free the slot: the channel answered or failed, maybe too late to count, or the task was cancelled."""
        self._running.discard(slot)
        if not slot.call.settled:
            self._settle(slot.call, slot.call.unanswered("the call was cancelled"))
        self.start()

    async def _answer(self, slot: CallSlot) -> Sequence[Report | None]:
        """Return the channel's answer, or UNKNOWN for all with the reason why there is no valid answer.

        The use-by was checked when the call was assembled, and is checked again here.
        """
        call = slot.call
        if is_late(call.use_by_s, self._clock.monotonic_s()):
            slot.quick = False
            return [None] * call.count
        try:
            answer: object = await self._deliver(call)
        except (asyncio.CancelledError, GeneratorExit):
            raise
        except (SystemExit, KeyboardInterrupt) as error:
            text = error_text(error)
            _log.critical(
                "The channel %s raised %s: it asks the process to end, so the worker stops.", self.channel.name, text
            )
            raise
        except BaseException as error:
            reason = error_text(error)
            _log.debug("A call of the channel %s failed", self.channel.name, exc_info=error)
            return call.failed(reason)
        if call.by_target is not None:
            return call.by_target.close("the channel did not report on it")
        if all_sent(answer, call.count):
            return cast("list[Report]", answer)
        return read_reports(answer, [envelope for part in call.parts for envelope in part.envelopes], self._faults.note)

    async def _deliver(self, call: Call) -> object:
        """Make the call, and measure it."""
        figures, began_s, paced = self._figures, self._clock.monotonic_s(), bool(call.loads)
        if figures is None:
            return await self._made(call)
        figures.begin()
        for flow, load in call.loads.items():
            self._stalls.left(flow, load)
        try:
            answer = await self._made(call)
        finally:
            now_s = self._clock.monotonic_s()
            figures.end(now_s - began_s, now_s)
        if paced:
            for flow, load in self._stalls.answered(now_s - began_s, figures.limit.usual_s, now_s).items():
                self._gate.stalled(flow, load)
        return answer

    def _made(self, call: Call) -> Awaitable[object]:
        """Return the channel's coroutine that makes the call."""
        if self._by_target is None:
            return cast("BatchChannel", self.channel).deliver(call.envelopes, call.tier)
        call.by_target = ProviderCall(call.envelopes, call.tier, self._clock.monotonic_s() + self.timeout_s)
        return self._by_target(call.by_target)

    def _timed_out(self, slot: CallSlot) -> None:
        self._give_up(slot, f"no answer within {self.timeout_s:g} s")

    def _give_up(self, slot: CallSlot, reason: str) -> None:
        if not slot.call.settled:
            self._settle(slot.call, slot.call.unanswered(reason))
        if slot.task is not None:
            slot.task.cancel()

    def _settle(self, call: Call, reports: Sequence[Report | None]) -> None:
        call.settled = True
        self.calls_settled += 1
        if self._figures is not None:
            self._figures.count(reports)
        start = 0
        for part in call.parts:
            end = start + len(part.envelopes)
            self._settle_part(part, reports[start:end])
            start = end

    def _settle_part(self, part: CallPart, reports: Sequence[Report | None] | None) -> None:
        """Settle one part. `reports` is None if the call was not started in time."""
        if part.pending.settle(part.start, [None] * len(part.envelopes) if reports is None else reports):
            self._targets -= part.pending.batch.targets
            del self._unreported[part.pending]
            self._finished.add(part.pending)


def _put_off(trouble: Trouble, count: int) -> list[Report | None] | None:
    """Return the reports on envelopes of a closed flow; None if it opens soon, so that the worker keeps them."""
    return None if trouble.for_s <= KEPT_S else [Report(trouble.put_off)] * count


def targets_per_request(channel: AnyChannel) -> int:
    """Return the maximum number of targets in one request to the channel's provider; 0: all of an envelope."""
    return int(getattr(channel, "targets_per_request", 1 if hasattr(channel, "deliver_targets") else 0))
