"""Reads outcome records up to their present ends: those of a task, and the invalid targets that they name."""

from collections.abc import Iterable, Iterator

import pulsar

from backends.pulsar.topic_reader import CLOCKS_MS, TopicReader
from dispatcher.ports import records_to_end
from dispatcher.wire.invalid import Reported, invalid_in
from dispatcher.wire.outcome import Outcomes, read_record
from dispatcher.wire.topics import Topics


def read_invalid(client: pulsar.Client, topics: Topics, partitions: Iterable[int], since_ms: int) -> Iterator[Reported]:
    """Yield the invalid targets in the records of these outcome topics, up to their present ends, from a wall time on.

    A target may be yielded several times: records have copies, and tasks share targets. Raises Unreachable, NotFound
    (not provisioned).
    """
    for partition in partitions:
        for record in read_outcome_records(client, topics, partition, since_ms):
            if record.named:
                yield from invalid_in(record)


def read_outcome_records(client: pulsar.Client, topics: Topics, partition: int, since_ms: int) -> Iterator[Outcomes]:
    """Yield the outcomes in an outcome topic, up to its present end, from a wall time on. A record may have copies.

    Raises Unreachable, NotFound (not provisioned).
    """
    topic, after_ms = topics.outcomes(partition), max(0, since_ms - CLOCKS_MS)
    for stored in records_to_end(TopicReader(client, topic, since_ms=after_ms)):
        record = read_record(stored.body)
        if isinstance(record, Outcomes) and record.at_ms >= since_ms:
            yield record
