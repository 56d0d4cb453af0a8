"""Lease calls in memory: made at once, with answers that may be lost."""

from collections.abc import Callable

from dispatcher.model.errors import FairlaneError, Unreachable
from dispatcher.ports import Ledger
from dispatcher.wire.lease import LeaseAnswer, LeaseRequest


class MemoryLeaseCaller:
    """Implements dispatcher.ports.LeaseCaller."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.requests: list[LeaseRequest] = []
        """All requests made."""
        self.lose = 0
        """Number of next answers to lose after the ledger has given them."""
        self.fail = 0
        """Number of next calls that do not reach the ledger."""

    def ask(self, request: LeaseRequest, answered: Callable[[LeaseAnswer | None, Exception | None], None]) -> None:
        self.requests.append(request)
        if self.fail:
            self.fail -= 1
            answered(None, Unreachable("The ledger cannot be reached."))
            return
        try:
            answer = self._ledger.lease(request)
        except FairlaneError as error:
            answered(None, error)
            return
        if self.lose:
            self.lose -= 1
            answered(None, Unreachable("The answer was lost."))
            return
        answered(answer, None)
