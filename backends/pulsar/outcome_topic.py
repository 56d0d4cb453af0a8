"""The outcome topics: numbered plain topics, each with the records of the tasks that hash to it, in order."""

from collections.abc import Iterable, Iterator

import pulsar

from backends.pulsar.record_producer import RecordProducer
from backends.pulsar.topic_reader import CLOCKS_MS, TopicReader
from dispatcher.ports import Done, records_to_end
from dispatcher.wire.outcome import OutcomeRecord, Outcomes, encode_record, read_record
from dispatcher.wire.topics import Topics


class OutcomeTopic:
    """Implements OutcomeLog. Thread-safe. Records keep the order in which they were given. A record without a receipt
    is published again until it is stored: `done` gets an error only on close."""

    def __init__(self, client: pulsar.Client, topics: Topics, timeout_s: float = 10.0) -> None:
        """timeout_s: how long `append` waits for a receipt. Raises Unreachable, NotFound (not provisioned), Refused."""
        self._client = client
        self._topics = topics
        self._timeout_s = timeout_s
        self._producers = [
            RecordProducer(client, topics.outcomes(partition)) for partition in range(topics.outcome_partitions)
        ]

    def publish(self, task: str, record: OutcomeRecord, done: Done) -> None:
        self._producers[self._topics.partition_of(task)].publish(
            encode_record(record), lambda error, _position: done(error)
        )

    def append(self, partition: int, record: OutcomeRecord) -> str:
        """Store a record that belongs to a partition rather than a task (marks, ended claims); return its position.
        Raises Unreachable; the record may then be stored later."""
        return self._producers[partition].append(encode_record(record), self._timeout_s)

    def reader(self, partition: int, after: str | None = None) -> TopicReader:
        """Return a reader of the records after a position (None: from the first), as bytes."""
        return TopicReader(self._client, self._topics.outcomes(partition), after)

    def close(self, timeout_s: float = 5.0) -> bool:
        """Wait for receipts. Return False if some were still missing and were given up."""
        unfinished = [producer for producer in self._producers if not producer.close(timeout_s)]
        return not unfinished


def read_outcome_records(
    client: pulsar.Client, topics: Topics, partitions: Iterable[int], since_ms: int
) -> Iterator[Outcomes]:
    """Yield the outcomes in these outcome topics, up to their present ends, from a wall time on. A record may have
    copies.

    Raises Unreachable, NotFound (not provisioned).
    """
    for partition in partitions:
        topic, after_ms = topics.outcomes(partition), max(0, since_ms - CLOCKS_MS)
        for stored in records_to_end(TopicReader(client, topic, since_ms=after_ms)):
            record = read_record(stored.body)
            if isinstance(record, Outcomes) and record.at_ms >= since_ms:
                yield record
