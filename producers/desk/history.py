"""Keep the figures of the console's chart: one process of the door does it for all."""

import logging
import secrets
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise

from backends.redis.registry.figures import FigureRow
from dispatcher.analysis.rates import SENDING, tier_rates
from dispatcher.model.errors import FairlaneError
from dispatcher.model.view import WorkerBeat
from producers.connection import Connection
from producers.desk.board.board import Board
from producers.desk.board.groups import merged

EVERY_S = 10.0
JOB = "history"
_LOCK_MS = 25_000
"""So long after its last row the process that wrote it is replaced."""
_MINUTE = 6
"""Rows."""
_MOST_MS = 30_000
"""After a longer time without a look, counts say little of the present."""
_log = logging.getLogger(__name__)


class SentMeter:
    """Targets/s by tier since the look before, from the counts of the workers: however short a burst, it is in them."""

    def __init__(self) -> None:
        self._seen: dict[str, WorkerBeat] = {}
        self._at_ms = float("-inf")

    def rates(self, beats: Sequence[WorkerBeat], now_ms: int) -> dict[str, float]:
        """Return the rates. now_ms: Redis' time. The first look has the rates that the workers give."""
        lasted_ms = now_ms - self._at_ms
        found = tier_rates(beats)
        if lasted_ms <= _MOST_MS:
            found = {tier: sum(self._rate(beat, tier, lasted_ms) for beat in beats) for tier in found}
        self._seen, self._at_ms = {beat.id: beat for beat in beats}, now_ms
        return found

    def _rate(self, beat: WorkerBeat, tier: str, lasted_ms: float) -> float:
        """Return the targets/s of a worker. The counts of one that goes on are of its last beats, which come by the
        second; one that has begun or stopped sent for a part of the time."""
        before = self._seen.get(beat.id)
        sent = _sent(beat, tier) - (_sent(before, tier) if before else 0)
        goes_on = before is not None and beat.state in SENDING
        return sent * 1000 / max(1, beat.seen_ms - before.seen_ms if goes_on and before else lasted_ms)


def _sent(beat: WorkerBeat, tier: str) -> int:
    return beat.tiers[tier].sent if tier in beat.tiers else 0


def arrivals(history: Sequence[FigureRow]) -> list[float]:
    """Return the targets/s that came in, by the minute: submissions announce theirs every few seconds only."""
    found = list[float]()
    for end in range(len(history) - 1, 0, -_MINUTE):
        rows = history[max(0, end - _MINUTE) : end + 1]
        grown = sum(rows[-1].backlog) - sum(rows[0].backlog)
        sent = sum(sum(new.rates) * (new.at_ms - old.at_ms) / 1000 for old, new in pairwise(rows))
        found.append(max(0.0, (grown + sent) * 1000 / (rows[-1].at_ms - rows[0].at_ms)))
    return found[::-1]


class HistoryWriter:
    """Writes rates and backlog of the tiers, in a thread of its own, while this process holds the job."""

    def __init__(self, connection: Connection, board: Board) -> None:
        self._connection = connection
        self._board = board
        self._owner = f"door-{secrets.token_hex(8)}"
        self._meter = SentMeter()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=JOB, daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def close(self) -> None:
        """End the thread, and let another process write at once."""
        self._stop.set()
        self._thread.join()
        with suppress(FairlaneError):
            self._connection.locks.release([JOB], self._owner)

    def step(self) -> bool:
        """Keep the present figures if this process holds the job or nobody does. Return whether it did.

        Raises Unreachable; NotReady while the view is being rebuilt.
        """
        connection, board = self._connection, self._board
        holders = connection.locks.hold([JOB], self._owner, _LOCK_MS, 1, ())
        if holders.get(JOB) != self._owner or not board.age().complete:
            return False
        connection.epochs.check_counts()
        service = connection.registry.service
        settings, rates = service.globals(), self._meter.rates(connection.workers.workers(), service.now_ms())
        backlog = dict.fromkeys(rates, 0)
        for group in merged(board.groups(), settings):
            backlog[group.tier] += group.pending
        connection.figures.keep(list(rates.values()), list(backlog.values()))
        return True

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S - time.time() % EVERY_S):
            try:
                self.step()
            except FairlaneError as error:
                _log.debug("the figures are not kept: %s", error)
            except Exception:  # without this thread the chart would end
                _log.exception("the figures are not kept")
