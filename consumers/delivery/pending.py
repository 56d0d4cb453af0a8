"""Batches whose reports are not complete, their parts and calls, and the faults of their reports."""

import asyncio
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from dispatcher.channels.calls import ProviderCall
from dispatcher.channels.guards.door import Load
from dispatcher.ports import Batch
from dispatcher.wire.envelope import Envelope
from dispatcher.wire.outcome import UNKNOWN, UNSENT, Report, Verdict

Sent = Callable[[Batch, Sequence[Report | None]], None]
NO_LOADS: Mapping[str, Load] = MappingProxyType({})
_MAX_FAULTS = 50
"""Maximum kinds of faults logged for a channel; a kind may contain the channel's own text."""
_NUMBER = re.compile(r"-?[0-9]+")
_log = logging.getLogger(__name__)


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
        return not self.missing


class CallPart(NamedTuple):
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

    __slots__ = ("by_target", "count", "envelopes", "loads", "parts", "settled", "tier", "use_by_s")

    def __init__(self, parts: list[CallPart], loads: Mapping[str, Load] = NO_LOADS) -> None:
        """`loads`: by flow, what has passed the door of a cap for this call."""
        self.parts = parts
        self.loads = loads
        self.envelopes = [envelope for part in parts for envelope in part.envelopes]
        """A separate list for the channel, which may change it."""
        self.count = len(self.envelopes)
        self.use_by_s = min(part.pending.batch.use_by_s for part in parts)
        self.tier = parts[0].pending.batch.tier
        self.settled = False
        self.by_target: ProviderCall | None = None
        """Reports of a TargetChannel so far."""

    def unanswered(self, reason: str) -> list[Report | None]:
        """Return the reports if the call ended without an answer."""
        if self.by_target is not None:
            return self.by_target.close(reason)
        return [Report(Verdict(UNKNOWN, reason))] * self.count

    def failed(self, reason: str) -> list[Report | None]:
        """Return the reports if the call raised. If nothing of it was started it is unsent, with the reason: given
        back, it would be called again at once and fail again, seen by nobody."""
        reports = self.unanswered(reason)
        return reports if any(reports) else [Report(Verdict(UNSENT, reason))] * self.count


class FinishedBatches:
    """Batches whose reports are complete, handed to the engine at the end of a turn of the event loop.

    Handing over each by itself wakes the engine's thread for each. It then takes the interpreter's lock whenever the
    loop starts a request, which took a tenth of the CPU of a request of the channel `http`.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._batches: list[PendingBatch] = []

    def add(self, pending: PendingBatch) -> None:
        """Add a batch."""
        if not self._batches:
            self._loop.call_soon(self.hand_over)
        self._batches.append(pending)

    def hand_over(self) -> None:
        """Pass each finished batch and its reports to the engine, and forget the batch."""
        batches, self._batches = self._batches, []
        for pending in batches:
            hand_over(pending.batch, pending.sent, pending.reports)


class FaultLog:
    """Logs the faults of one channel. Faults that differ only in numbers are of one kind."""

    def __init__(self, channel: str) -> None:
        self._channel = channel
        self._kinds: set[str] = set()

    def note(self, fault: str) -> None:
        """Log a fault if it is the first of its kind."""
        kind = _NUMBER.sub("0", fault)
        if kind in self._kinds or len(self._kinds) >= _MAX_FAULTS:
            return
        self._kinds.add(kind)
        more = " Further kinds are not logged." if len(self._kinds) == _MAX_FAULTS else ""
        _log.error("The channel %s is faulty: %s. Correct its class. (Logged once.)%s", self._channel, fault, more)


def is_late(use_by_s: float, now_s: float) -> bool:
    """Return whether it is too late to begin a call: its targets may be granted to another worker."""
    return now_s >= use_by_s


def hand_over(batch: Batch, sent: Sent, reports: Sequence[Report | None]) -> None:
    try:
        sent(batch, reports)
    except Exception:
        _log.exception("The report of a batch of the lane %s could not be handed to the engine", batch.lane)
