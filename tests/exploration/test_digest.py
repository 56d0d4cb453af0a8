"""States of a worker that react differently have different digests, where the exploration would not come upon it."""

from dispatcher.buffers import Credit, Stretch
from dispatcher.ports import Delivery
from tests.exploration.digest import digest
from tests.exploration.envelopes import envelope_of, first
from tests.exploration.machine import digest_of
from tests.exploration.variants import TOPICS, VARIANTS
from tests.exploration.worker import NEVER_S, STALL_S, LiveWorker, TopicReader


def test_what_was_sent_in_the_grace_counts_while_it_lasts() -> None:
    """It is not sent again in it, should it be delivered again."""
    worker = _worker()
    worker.engine.stats.in_grace = 1
    before = digest_of(worker)
    worker.engine._grace._sent.add(Stretch(Delivery(envelope_of(first()), 0, 0.0)))
    assert digest_of(worker) != before


def test_of_the_grace_it_counts_how_long_it_still_lasts() -> None:
    """Not when it began: so it may come before a worker stands still or after."""
    worker = _worker()
    grace = worker.engine._grace
    worker.engine._timers._heap.clear()
    grace.begin(0.0, 2.0)
    at_first = digest(grace, 2.0)
    assert digest(grace, 3.0) != at_first
    grace.begin(1.0, 3.0)
    assert digest(grace, 3.0) == at_first


def test_what_was_granted_counts_by_how_long_before_the_call_it_was() -> None:
    """However long a worker has stood still since: the grace begins at the rate of when it asked."""
    worker = _worker()
    worker.engine._timers._heap.clear()
    part = Stretch(Delivery(envelope_of(first()), 0, 0.0))
    grace = worker.engine._grace
    grace.meter.granted(part, 0.0)
    lately, long_ago = digest(grace, 1_000.0, 1.0), digest(grace, 1_000.0, 10.0)
    assert lately != long_ago
    assert lately == digest(grace, 2_000.0, 1.0)
    assert digest(grace, 1_000.0, 1.0, calm=True) == digest(grace, 1_000.0, 10.0, calm=True)


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
    part = Stretch(Delivery(envelope_of(first()), 0, 0.0))
    credit = lane.credit["null"] = Credit(lane)
    credit.flow = worker.engine._sending.scheduler.flow(credit, lane.tier, 1, "null")
    assert digest_of(worker) == before
    credit.queue.append(part)
    assert digest_of(worker) != before


def _worker() -> LiveWorker:
    variant = next(variant for variant in VARIANTS if variant.grace)
    return LiveWorker(variant.lanes(), TOPICS, TopicReader(variant.record, variant.before))
