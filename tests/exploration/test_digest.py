"""States of a worker that react differently have different digests, where the exploration would not come upon it."""

from dispatcher.engine.buffers import Credit
from dispatcher.engine.runs import EnvelopeRun
from dispatcher.ports import Delivery
from tests.exploration.envelopes import SOON, envelope_of, first
from tests.exploration.machine import digest_of
from tests.exploration.variants import PLAIN, TOPICS, VARIANTS
from tests.exploration.worker import NEVER_S, STALL_S, LiveWorker


def test_a_timer_that_never_comes_is_as_none() -> None:
    worker = _worker()
    before = digest_of(worker)
    worker.engine._timers.at(worker.clock.monotonic_s() + NEVER_S, lambda: None)
    worker.clock.advance(10 * STALL_S)
    worker.engine.advance()
    assert digest_of(worker) == before
    worker.engine._timers.at(worker.clock.monotonic_s() + STALL_S, lambda: None)
    assert digest_of(worker) != before


def test_spent_credit_is_as_none() -> None:
    worker = _worker()
    before = digest_of(worker)
    lane = next(iter(worker.engine._working.lanes.values()))
    part = EnvelopeRun(Delivery(envelope_of(first(), SOON, PLAIN), 0, 0.0))
    credit = lane.credit["null"] = Credit(lane, "null", worker.engine._sending.scheduler)
    assert digest_of(worker) == before
    credit.queue.append(part)
    assert digest_of(worker) != before


def _worker() -> LiveWorker:
    return LiveWorker(VARIANTS[0].lanes(), TOPICS, PLAIN)
