"""Producers that get no receipts: how they are noticed, and replaced."""

import logging
import threading
from collections.abc import Callable
from typing import Any

from backends.pulsar.client import let_go
from dispatcher.model.errors import FairlaneError
from dispatcher.retry import Backoff

CHECK_S = 5.0
CHECKS = 4
"""A producer is replaced at this many checks in a row at which nothing was confirmed since the one before, though
something was owed: 20 to 25 s.

The client repairs lost connections by itself, but not this: while a topic moves, a broker may tell the client that it
closed a producer before it answers that it created it. The client then takes it as created, and the broker drops all
that it sends (Pulsar 4.0.8 and pulsar-client 3.13: one in some 1,500 moves of a topic).

The client's own send timeout is no help: it counts from when each message was sent. If Pulsar is slow, messages that
wait behind others exceed it although receipts come, and publishing them again makes Pulsar slower still.
"""
_ATTEMPTS = Backoff(0.1, 5.0)
"""First and longest wait before an attempt to create a producer in place of another."""
_log = logging.getLogger(__name__)


class Silence:
    """The checks in a row at which nothing had been confirmed.

    They are counted, and not measured, so that the stop of this process is not taken for one of Pulsar. As long as
    nothing is confirmed, each replacement waits twice as long as the one before: if storage hangs, another producer is
    no better, and each one publishes everything once more.
    """

    def __init__(self) -> None:
        self._confirmed = 0
        self._checks = 0
        self._limit = CHECKS

    def is_over_limit(self, *, owed: bool, confirmed: int) -> bool:
        """Note a check; return whether the producer is to be replaced. confirmed: the number of receipts so far."""
        if confirmed != self._confirmed or not owed:
            self._confirmed, self._checks, self._limit = confirmed, 0, CHECKS
            return False
        self._checks += 1
        if self._checks < self._limit:
            return False
        self._checks, self._limit = 0, 2 * self._limit
        return True


def replace_producer(broken: Any, attempt: Callable[[], None], closed: threading.Event) -> None:
    """Let a producer go and make another one, in a thread of its own: until an attempt succeeds or `closed` is set.

    attempt: makes the new one and goes on with it. Raises FairlaneError, and is then made again.
    """

    def run() -> None:
        let_go(broken)
        wait_s = _ATTEMPTS.first_s
        while not closed.wait(wait_s):
            try:
                attempt()
            except FairlaneError as error:
                _log.warning("%s", error)
                wait_s = _ATTEMPTS.after(wait_s)
            else:
                return

    threading.Thread(target=run, name="replace producer", daemon=True).start()
