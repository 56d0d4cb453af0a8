"""The calls of one channel, from waiting to settled. All of this runs in the courier's event loop."""

import asyncio
import logging
import re
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextvars import copy_context
from functools import partial
from typing import NamedTuple, cast

from consumers.delivery.loop_watch import CHANNEL
from dispatcher.channels.calls import ProviderCall
from dispatcher.clock import Clock
from dispatcher.ports import AnyChannel, Batch, BatchChannel
from dispatcher.verdicts import all_sent, error_text, read_reports
from dispatcher.wire.envelope import Envelope
from dispatcher.wire.outcome import UNKNOWN, Report, Verdict

Sent = Callable[[Batch, Sequence[Report | None]], None]
SERVED_WITHIN_S = 0.005
"""How long one task makes calls that finish immediately, before other channels and timers get a turn."""
_MAX_FAULTS = 50
"""Maximum kinds of faults logged for a channel; a kind may contain the channel's own text."""
_NUMBER = re.compile(r"-?[0-9]+")
_log = logging.getLogger(__name__)


class ChannelLoad(NamedTuple):
    """The calls and targets of a channel, in progress and waiting."""

    calls: int = 0
    """Calls in progress."""
    waiting: int = 0
    """Calls waiting for a free slot."""
    targets: int = 0
    """Targets of both."""


class PendingBatch:
    """A batch whose report is not complete, and the reports received so far."""

    __slots__ = ("batch", "missing", "reports", "sent", "since_s")

    def __init__(self, batch: Batch, sent: Sent, calls: int, since_s: float) -> None:
        self.batch = batch
        self.sent = sent
        self.since_s = since_s
        self.missing = calls
        self.reports: list[Report | None] = [None] * len(batch.deliveries)

    def settle(self, start: int, reports: Sequence[Report | None]) -> bool:
        """Store one call's reports. Return whether they were the last."""
        self.reports[start : start + len(reports)] = reports
        self.missing -= 1
        if self.missing:
            return False
        _hand_over(self.batch, self.sent, self.reports)
        return True


class _Part(NamedTuple):
    """The envelopes of a batch that go into one call."""

    pending: PendingBatch
    start: int
    """Index of the first envelope in the batch."""
    envelopes: list[Envelope]


class Call:
    """Envelopes of one tier that go to the channel together.

    A call is settled once: by the channel's answer, its failure, the timeout, or the earliest use-by, if that had
    passed when the call's turn came.
    """

    __slots__ = ("by_target", "count", "envelopes", "parts", "settled", "tier", "use_by_s")

    def __init__(self, parts: list[_Part]) -> None:
        self.parts = parts
        self.envelopes = [envelope for part in parts for envelope in part.envelopes]
        """A separate list for the channel, which may change it."""
        self.count = len(self.envelopes)
        self.use_by_s = min(part.pending.batch.use_by_s for part in parts)
        self.tier = parts[0].pending.batch.tier
        self.settled = False
        self.by_target: ProviderCall | None = None
        """Reports of a TargetChannel so far."""


class _Slot:
    """One of the channel's slots for concurrent calls, and its task."""

    __slots__ = ("call", "quick", "task", "timer")

    def __init__(self, call: Call) -> None:
        self.call = call
        self.quick = True
        """True while none of its calls was late or yielded to the event loop."""
        self.task: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None


class ChannelQueue:
    """Calls of one channel, started in order, `channel.concurrency` at once."""

    def __init__(self, channel: AnyChannel, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self.channel = channel
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
        self._waiting: deque[_Part] = deque()
        self._running: set[_Slot] = set()
        self._targets = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._ended = False
        self._quick = False
        """Whether the last calls finished as soon as they were started."""
        self._faults: set[str] = set()

    @property
    def in_flight(self) -> ChannelLoad:
        return ChannelLoad(len(self._running), len(self._waiting), self._targets)

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
            _hand_over(batch, sent, pending.reports)
            return
        self._targets += batch.targets
        self._unreported[pending] = None
        self._idle.clear()
        self._waiting.extend(_Part(pending, start, envelopes[start : start + self.call_limit]) for start in starts)
        if not self._quick:
            self._start_calls()

    def start(self) -> None:
        """Start the calls of all batches put so far."""
        self._start_calls()

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
        tasks = [slot.task for slot in self._running if slot.task is not None]
        for slot in list(self._running):
            self._give_up(slot, "the worker stopped during the call")
        if tasks:
            await asyncio.wait(tasks, timeout=1.0)

    # ------------------------------------------------------------- calls
    def _start_calls(self) -> None:
        """Start as many calls as there are free slots. While calls finish immediately, start only one, whose task also
        makes the others."""
        slots = 1 if self._quick else self.channel.concurrency
        while self._waiting and len(self._running) < slots:
            call = self._next_call()
            if call is None:
                break
            slot = _Slot(call)
            self._running.add(slot)
            slot.task = self._loop.create_task(self._serve(slot), context=self._context.copy())
            slot.task.add_done_callback(partial(self._free, slot))
        if not self._running and not self._waiting:
            self._idle.set()

    def _next_call(self) -> Call | None:
        """Return the next call; None if only late parts were left.

        It takes parts of one tier from the front of the queue, within the channel's limit. It skips none that is in
        time, since their order is the scheduler's.
        """
        parts: list[_Part] = []
        room, now_s, waiting = self.call_limit, self._clock.monotonic_s(), self._waiting
        while waiting:
            batch, count = waiting[0].pending.batch, len(waiting[0].envelopes)
            if parts and (count > room or batch.tier != parts[0].pending.batch.tier):
                break
            part = waiting.popleft()
            if is_late(batch.use_by_s, now_s):
                self._settle_part(part, None)
            else:
                parts.append(part)
                room -= count
        return Call(parts) if parts else None

    async def _serve(self, slot: _Slot) -> None:
        """Make the call and, for a time, those after it, as long as all finish immediately.

        A task and its timer cost about 60 us, which is more than a call with one envelope costs.
        """
        waits = self._loop.call_soon(self._yielded, slot)
        until_s = self._clock.monotonic_s() + SERVED_WITHIN_S
        try:
            call: Call | None = slot.call
            while call is not None:
                slot.call = call
                reports = await self._answer(slot)
                if not call.settled:
                    self._settle(call, reports)
                alone = slot.quick and len(self._running) == 1
                on = alone and not self._ended and self._clock.monotonic_s() < until_s
                call = self._next_call() if on else None
        finally:
            waits.cancel()
        self._quick = all(other.quick for other in self._running)

    def _yielded(self, slot: _Slot) -> None:
        """Note that a call has yielded to the event loop, and use the other slots for the calls behind it."""
        slot.quick = self._quick = False
        slot.timer = self._loop.call_later(self.timeout_s, self._timed_out, slot)
        self._start_calls()

    def _free(self, slot: _Slot, _task: object) -> None:
        """Free the slot: the channel answered or failed, maybe too late to count, or the task was cancelled."""
        if slot.timer is not None:
            slot.timer.cancel()
        self._running.discard(slot)
        if not slot.call.settled:
            self._settle(slot.call, _unanswered(slot.call, "the call was cancelled"))
        self._start_calls()

    async def _answer(self, slot: _Slot) -> Sequence[Report | None]:
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
            return _unanswered(call, reason)
        if call.by_target is not None:
            return call.by_target.close("the channel did not report on it")
        if all_sent(answer, call.count):
            return cast("list[Report]", answer)
        return read_reports(answer, [one for part in call.parts for one in part.envelopes], self._fault)

    async def _deliver(self, call: Call) -> object:
        if self._by_target is None:
            return await cast("BatchChannel", self.channel).deliver(call.envelopes, call.tier)
        call.by_target = ProviderCall(call.envelopes, call.tier, self._clock.monotonic_s() + self.timeout_s)
        await self._by_target(call.by_target)
        return None

    def _fault(self, fault: str) -> None:
        """Log a fault of the channel's answers, each kind once. Faults that differ only in numbers are of one kind."""
        kind = _NUMBER.sub("0", fault)
        if kind in self._faults or len(self._faults) >= _MAX_FAULTS:
            return
        self._faults.add(kind)
        more = " Further kinds are not logged." if len(self._faults) == _MAX_FAULTS else ""
        _log.error("The channel %s is faulty: %s. Correct its class. (Logged once.)%s", self.channel.name, fault, more)

    def _timed_out(self, slot: _Slot) -> None:
        self._give_up(slot, f"no answer within {self.timeout_s:g} s")

    def _give_up(self, slot: _Slot, reason: str) -> None:
        if not slot.call.settled:
            self._settle(slot.call, _unanswered(slot.call, reason))
        if slot.task is not None:
            slot.task.cancel()

    def _settle(self, call: Call, reports: Sequence[Report | None]) -> None:
        call.settled = True
        self.calls_settled += 1
        start = 0
        for part in call.parts:
            end = start + len(part.envelopes)
            self._settle_part(part, reports[start:end])
            start = end

    def _settle_part(self, part: _Part, reports: Sequence[Report | None] | None) -> None:
        """Settle one part. `reports` is None if the call was not started in time."""
        if part.pending.settle(part.start, [None] * len(part.envelopes) if reports is None else reports):
            self._targets -= part.pending.batch.targets
            del self._unreported[part.pending]


def _unanswered(call: Call, reason: str) -> list[Report | None]:
    """Return the reports on a call that ended without an answer."""
    if call.by_target is not None:
        return call.by_target.close(reason)
    return [Report(Verdict(UNKNOWN, reason))] * call.count


def is_late(use_by_s: float, now_s: float) -> bool:
    """Return whether it is too late to begin a call: its targets may be granted to another worker."""
    return now_s >= use_by_s


def not_started(batch: Batch, sent: Sent) -> None:
    """Report the whole batch as not started, which costs no attempt."""
    _hand_over(batch, sent, [None] * len(batch.deliveries))


def _hand_over(batch: Batch, sent: Sent, reports: Sequence[Report | None]) -> None:
    try:
        sent(batch, reports)
    except Exception:
        _log.exception("The report of a batch of the lane %s could not be handed to the engine", batch.lane)
