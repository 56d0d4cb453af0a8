"""The number of partitions for a task's lane, and the needs of its producer."""

import math

from dispatcher.scheduling.read_ahead import envelope_bytes, receiver_queue
from dispatcher.wire.control import TaskRecord
from producers.publish.tuning import MIN_PENDING, ProducerNeeds
from producers.settings import ProducerOptions

TARGETS_PER_S = 2_000_000.0
ENVELOPES_PER_S = 50_000.0
"""Rates that one submitting process should reach; the lower of the two is the rate of its producer."""


def partitions_for(expected_targets: int | None, need_bytes: int, options: ProducerOptions) -> int:
    """Return the number of partitions; 0: a topic without partitions.

    The result is 0 for up to a million targets or an unknown number. Otherwise it is one partition for each 2.5
    million, at least two, at most twelve, and no more than the memory allows at a thousand pending envelopes each.
    need_bytes: the size of an envelope.
    """
    if not options.partition_above or expected_targets is None or expected_targets <= options.partition_above:
        return 0
    partitions = min(math.ceil(expected_targets / options.partition_targets), options.most_partitions)
    return max(2, min(partitions, options.memory_bytes // (MIN_PENDING * need_bytes)))


def need_of(record: TaskRecord, options: ProducerOptions) -> ProducerNeeds:
    """Return what a submission's producer has to carry: partitions, bytes per message, messages per second."""
    size = envelope_bytes(record.chunk, len(record.message))
    return ProducerNeeds(
        partitions=max(1, record.partitions),
        message_bytes=size,
        rate=min(ENVELOPES_PER_S, TARGETS_PER_S / record.chunk),
        memory_bytes=max(options.memory_bytes, 2 * max(1, record.partitions) * size),
        receiver_queue=receiver_queue(record.chunk),
    )
