"""Calls to the ledger are made away from the engine, which is told what came of each, whatever it is."""

import queue

import pytest

from dispatcher.model.errors import Unreachable
from dispatcher.wire.lease import LeaseAnswer, LeaseRequest
from fairlane.worker.engine_ports import LeaseThread
from tests.actors import running
from tests.contract.ledger_worlds import request


class Ledger:
    def __init__(self, *raised: Exception) -> None:
        self.raised = list(raised)
        self.asked: list[int] = []

    def lease(self, request: LeaseRequest) -> LeaseAnswer:
        self.asked.append(request.number)
        if self.raised:
            raise self.raised.pop()
        return LeaseAnswer(number=request.number, ready=True, lanes=[])


@pytest.mark.parametrize("error", [Unreachable("Redis is gone."), RuntimeError("who knows why")])
def test_whatever_the_ledger_raises_is_told_and_the_next_call_is_made(error: Exception) -> None:
    ledger = Ledger(error)
    caller = LeaseThread(ledger)
    reported: queue.Queue[tuple[LeaseAnswer | None, Exception | None]] = queue.Queue()
    with running(caller.run):
        for number in (1, 2):
            caller.ask(request(number), lambda *answer: reported.put(answer))
        first, second = reported.get(timeout=10), reported.get(timeout=10)
        caller.wake()
    assert first == (None, error)
    assert second[0] is not None
    assert second[1] is None
    assert ledger.asked == [1, 2]
