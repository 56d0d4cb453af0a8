"""States of a worker that react differently have different digests, where the exploration would not come upon it."""

from dispatcher.buffers import Stretch
from dispatcher.ports import Delivery
from tests.exploration.envelopes import envelope_of, first
from tests.exploration.machine import digest_of
from tests.exploration.variants import TOPICS, VARIANTS
from tests.exploration.worker import LiveWorker, TopicReader


def test_what_was_sent_in_the_grace_counts_while_it_lasts() -> None:
    """It is not sent again in it, should it be delivered again."""
    variant = next(variant for variant in VARIANTS if variant.grace)
    worker = LiveWorker(variant.lanes(), TOPICS, TopicReader(variant.record, variant.before))
    worker.engine.stats.in_grace = 1
    before = digest_of(worker)
    worker.engine._grace._sent.add(Stretch(Delivery(envelope_of(first()), 0, 0.0)))
    assert digest_of(worker) != before
