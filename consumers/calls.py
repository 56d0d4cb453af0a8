"""The calls of one channel: waiting for a place, under way, over. All of it in the courier's event loop."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from dispatcher.clock import Clock
from dispatcher.envelope import Envelope
from dispatcher.outcome import RETRY, Report, Verdict
from dispatcher.ports import Batch, Channel

Sent = Callable[[Batch, Sequence[Report | None]], None]
_log = logging.getLogger(__name__)


class InFlight(NamedTuple):
    """calls under way, calls waiting for a place, targets of both."""

    calls: int = 0
    waiting: int = 0
    targets: int = 0


class _Parcel:
    """A batch and the reports gathered for it."""

    __slots__ = ("batch", "missing", "reports", "sent")

    def __init__(self, batch: Batch, sent: Sent, calls: int) -> None:
        self.batch = batch
        self.sent = sent
        self.missing = calls
        self.reports: list[Report | None] = [None] * len(batch.deliveries)

    def settle(self, start: int, reports: Sequence[Report | None]) -> bool:
        """Takes one call's reports; True if they were the last."""
        self.reports[start : start + len(reports)] = reports
        self.missing -= 1
        if self.missing:
            return False
        _tell(self.batch, self.sent, self.reports)
        return True


class _Piece(NamedTuple):
    """Some envelopes of a parcel, `start` its first one's place there."""

    parcel: _Parcel
    start: int
    envelopes: list[Envelope]


class Call:
    """Pieces, of one tier, that go to the channel together. It is settled once: by the channel's answer, its failure,
    the timeout, the use-by (late: the earliest had passed when the call's turn came)."""

    __slots__ = ("envelopes", "late", "pieces", "quick", "settled", "task", "timer", "use_by_s")

    def __init__(self, pieces: list[_Piece]) -> None:
        self.pieces = pieces
        self.envelopes = [envelope for piece in pieces for envelope in piece.envelopes]
        self.use_by_s = min(piece.parcel.batch.use_by_s for piece in pieces)
        self.settled = False
        self.late = False
        self.quick = True
        self.task: asyncio.Task[Sequence[Report]] | None = None
        self.timer: asyncio.TimerHandle | None = None

    def waits(self) -> None:
        """The channel has let others go on before it was through."""
        self.quick = False


class ChannelQueue:
    """Calls of one channel, started in order, `channel.concurrency` at once."""

    def __init__(self, channel: Channel, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self.channel = channel
        self.timeout_s = channel.timeout_s
        self.call_limit = max(1, channel.batch_limit)
        self._loop = loop
        self._clock = clock
        self._waiting: deque[_Piece] = deque()
        self._running: set[Call] = set()
        self._targets = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._ended = False
        self._quick = False
        """The last call was over as soon as it was begun."""

    @property
    def in_flight(self) -> InFlight:
        return InFlight(len(self._running), len(self._waiting), self._targets)

    def put(self, batch: Batch, sent: Sent) -> None:
        """Cuts the batch into calls. If calls take time they begin here, side by side; if they are over at once many
        would only cost more, and `start` begins them."""
        envelopes = [delivery.envelope for delivery in batch.deliveries]
        starts = range(0, len(envelopes), self.call_limit)
        parcel = _Parcel(batch, sent, len(starts))
        if not envelopes or self._ended:
            _tell(batch, sent, parcel.reports)
            return
        self._targets += batch.targets
        self._idle.clear()
        self._waiting.extend(_Piece(parcel, start, envelopes[start : start + self.call_limit]) for start in starts)
        if not self._quick:
            self._start_calls()

    def start(self) -> None:
        """Begins what was put and could not be joined before."""
        self._start_calls()

    async def idle(self, deadline_s: float) -> bool:
        """Waits until nothing is under way or waiting; False at the deadline."""
        try:
            await asyncio.wait_for(self._idle.wait(), deadline_s)
        except TimeoutError:
            return False
        return True

    async def abort(self) -> None:
        """Ends what is left: waiting calls were never started, calls under way say RETRY."""
        self._ended = True
        while self._waiting:
            self._settle_piece(self._waiting.popleft(), None)
        tasks = [call.task for call in self._running if call.task is not None]
        for call in list(self._running):
            self._give_up(call, "the worker stopped during the call")
        if tasks:
            await asyncio.wait(tasks, timeout=1.0)

    # ------------------------------------------------------------- one call
    def _start_calls(self) -> None:
        """As many as there are places for. The use-by is looked at here and once more when the task gets its turn."""
        while self._waiting and len(self._running) < self.channel.concurrency:
            pieces = self._next_pieces()
            if not pieces:
                continue
            call = Call(pieces)
            self._running.add(call)
            call.timer = self._loop.call_later(self.timeout_s, self._timed_out, call)
            call.task = self._loop.create_task(self._deliver(call))
            call.task.add_done_callback(partial(self._over, call))

    def _next_pieces(self) -> list[_Piece]:
        """What waits at the front and may go in one call: of one tier, within the channel's limit, not late. Others are
        passed over only where calls take no time.

        A call costs a task and a timer, some 60 us; an envelope alone in each would spend more on these than on itself.
        """
        pieces: list[_Piece] = []
        passed: list[_Piece] = []
        room, tier, now_s = self.call_limit, self._waiting[0].parcel.batch.tier, self._clock.monotonic_s()
        while self._waiting and len(self._waiting[0].envelopes) <= room:
            piece = self._waiting.popleft()
            if piece.parcel.batch.tier != tier:
                passed.append(piece)
                if not self._quick:
                    break
            elif now_s >= piece.parcel.batch.use_by_s:
                self._settle_piece(piece, None)
            else:
                pieces.append(piece)
                room -= len(piece.envelopes)
        self._waiting.extendleft(reversed(passed))
        return pieces

    async def _deliver(self, call: Call) -> Sequence[Report]:
        if self._clock.monotonic_s() >= call.use_by_s:
            call.late = True
            return []
        turn = self._loop.call_soon(call.waits)
        reports = await self.channel.deliver(call.envelopes, call.pieces[0].parcel.batch.tier)
        turn.cancel()
        return reports

    def _over(self, call: Call, _task: object) -> None:
        """The channel has answered or failed, maybe too late for its word to count."""
        if call.timer is not None:
            call.timer.cancel()
        self._running.discard(call)
        self._quick = call.quick and not call.late
        reports = self._reports(call)
        if not call.settled:
            self._settle(call, reports)
        self._start_calls()
        if not self._running and not self._waiting:
            self._idle.set()

    def _reports(self, call: Call) -> Sequence[Report | None]:
        """What the channel said, or RETRY for all with the reason why it counts for nothing."""
        task = call.task
        if call.late:
            return [None] * len(call.envelopes)
        if task is None or task.cancelled():
            return self._retry(call, "the call was cancelled")
        error = task.exception()
        if error is not None:
            if not call.settled:
                _log.warning("A call of the channel %s failed: %s: %s", self.channel.name, type(error).__name__, error)
            return self._retry(call, f"{type(error).__name__}: {error}")
        reports = task.result()
        fault = _fault(reports, len(call.envelopes))
        if fault:
            _log.error("The channel %s is faulty: %s", self.channel.name, fault)
            return self._retry(call, fault)
        return reports

    def _timed_out(self, call: Call) -> None:
        self._give_up(call, f"no answer within {self.timeout_s:g} s")

    def _give_up(self, call: Call, reason: str) -> None:
        if not call.settled:
            self._settle(call, self._retry(call, reason))
        if call.task is not None:
            call.task.cancel()

    def _retry(self, call: Call, reason: str) -> list[Report]:
        return [Report(Verdict(RETRY, reason))] * len(call.envelopes)

    def _settle(self, call: Call, reports: Sequence[Report | None]) -> None:
        call.settled = True
        start = 0
        for piece in call.pieces:
            end = start + len(piece.envelopes)
            self._settle_piece(piece, reports[start:end])
            start = end

    def _settle_piece(self, piece: _Piece, reports: Sequence[Report | None] | None) -> None:
        """reports: None if the call was not started in time."""
        if piece.parcel.settle(piece.start, [None] * len(piece.envelopes) if reports is None else reports):
            self._targets -= piece.parcel.batch.targets
        if not self._running and not self._waiting:
            self._idle.set()


def refused(batch: Batch, sent: Sent, reason: str) -> None:
    """Reports RETRY for the whole batch: another worker may be able to deliver it."""
    _tell(batch, sent, [Report(Verdict(RETRY, reason))] * len(batch.deliveries))


def _tell(batch: Batch, sent: Sent, reports: Sequence[Report | None]) -> None:
    try:
        sent(batch, reports)
    except Exception:
        _log.exception("The report of a batch of the lane %s was not taken", batch.lane)


def _fault(reports: object, wanted: int) -> str:
    """Why these cannot be a channel's reports for so many envelopes; empty if they can."""
    if not isinstance(reports, (list, tuple)):
        return f"deliver() returned a {type(reports).__name__}, not a list of reports"
    if len(reports) != wanted:
        return f"deliver() returned {len(reports)} reports for {wanted} envelopes"
    stranger = next((report for report in reports if not isinstance(report, Report)), None)
    return "" if stranger is None else f"deliver() returned a {type(stranger).__name__} among its reports"
