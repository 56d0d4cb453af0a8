"""Keep the figures of the console's chart: one process of the door does it for all."""

import logging
import secrets
import threading
import time
from contextlib import suppress

from dispatcher.analysis.rates import tier_rates
from dispatcher.model.errors import FairlaneError
from producers.connection import Connection
from producers.desk.board.board import Board
from producers.desk.board.groups import merged

EVERY_S = 10.0
JOB = "history"
_LOCK_MS = 25_000
"""So long after its last row the process that wrote it is replaced."""
_log = logging.getLogger(__name__)


class HistoryWriter:
    """Writes rates and backlog of the tiers, in a thread of its own, while this process holds the job."""

    def __init__(self, connection: Connection, board: Board) -> None:
        self._connection = connection
        self._board = board
        self._owner = f"door-{secrets.token_hex(8)}"
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
        settings, rates = connection.registry.service.globals(), tier_rates(connection.workers.workers())
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
