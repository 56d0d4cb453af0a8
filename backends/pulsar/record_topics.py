"""The topics of records. The control topic is the truth about tasks and controls, written before any caller gets an
answer. The outcome topics are numbered, each with the records of the tasks that hash to it, in order. A snapshot has a
topic of its own, so that an old one is deleted as a whole.

The client's `flush_async` is not used anywhere, because it can deadlock: it waits for the producer's lock while it
holds Python's, and a thread that holds the producer's lock needs Python's to drop a callback. Batches are sent after a
short delay instead.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from typing import Any

import _pulsar
import pulsar

from backends.pulsar.admin import PulsarAdmin
from backends.pulsar.client import failure_of, let_go, position_of, record_producer
from backends.pulsar.record_producer import RecordProducer
from backends.pulsar.topic_reader import CLOCKS_MS, TopicReader
from dispatcher.model.errors import Unreachable
from dispatcher.ports import Done, records_to_end
from dispatcher.wire.control import ControlRecord, encode_control
from dispatcher.wire.outcome import OutcomeRecord, Outcomes, encode_record, read_record
from dispatcher.wire.snapshot import Record, encode
from dispatcher.wire.topics import Topics

_AHEAD = 32
"""Number of records sent ahead of their receipts, or read ahead; about half a MB each."""
_RECEIPT_S = 30.0


class ControlTopic:
    """Implements ControlLog. Thread-safe; records appended at the same time are stored in one batch."""

    def __init__(self, client: pulsar.Client, topics: Topics, timeout_s: float = 10.0) -> None:
        """timeout_s: how long to wait for a receipt. Raises Unreachable, NotFound (not provisioned), Refused."""
        self._client = client
        self._topic = topics.control
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._producer: Any = None
        self._open()

    def append(self, record: ControlRecord) -> str:
        """Store a record and return its position.

        Raises Unreachable: the record is then not stored, or it is stored already and only the answer was lost. It is
        never stored later, and appending it again is safe.
        """
        return self.append_many([record])[0]

    def append_many(self, records: Sequence[ControlRecord]) -> list[str]:
        """Store the records in this order, with one wait for all; return their positions."""
        producer = self._open()
        receipts = [_sent(producer, record) for record in records]
        late = wait(receipts, 2 * self._timeout_s).not_done
        answers = [(pulsar.Result.Timeout, None)] if late else [receipt.result() for receipt in receipts]
        for result, _ in answers:
            error = failure_of(result, f"append to {self._topic}", self._client)
            if error is not None:
                self._drop(producer)
                raise error
        return [position_of(message_id) for _, message_id in answers]

    def reader(self, after: str | None = None) -> TopicReader:
        """Return a reader of the records after a position (None: from the first). Decode them with `decode_control`."""
        return TopicReader(self._client, self._topic, after)

    def close(self) -> None:
        with self._lock:
            producer, self._producer = self._producer, None
        if producer is not None:
            let_go(producer)

    def _open(self) -> Any:
        with self._lock:
            if self._producer is None:
                # A record must not be stored long after its append failed: a late "pause" would override the "resume"
                # that came after it. So the client gives up before the caller does.
                self._producer = record_producer(self._client, self._topic, round(self._timeout_s * 1000))
            return self._producer

    def _drop(self, producer: Any) -> None:
        """Discard the producer; the next append creates a new one. Some failures leave a producer that never works
        again."""
        with self._lock:
            if self._producer is producer:
                self._producer = None
        let_go(producer)


def _sent(producer: Any, record: ControlRecord) -> Future[tuple[Any, Any]]:
    """Send a record. The client's thread gives the result and the message's id."""
    receipt: Future[tuple[Any, Any]] = Future()
    builder = _pulsar.MessageBuilder()
    builder.content(encode_control(record))
    producer.send_async(builder.build(), lambda result, message_id: receipt.set_result((result, message_id)))
    return receipt


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


class SnapshotTopics:
    """Creates, lists, reads and deletes snapshots. Every method raises Unreachable if Pulsar cannot be reached."""

    def __init__(self, client: pulsar.Client, admin: PulsarAdmin, topics: Topics) -> None:
        self._client = client
        self._admin = admin
        self._topics = topics

    def numbers(self) -> list[str]:
        """Return the numbers of all snapshots, complete or not, newest first."""
        topics = self._admin.list_topics(self._topics.system_namespace)
        prefix = self._topics.snapshots
        return sorted((topic.removeprefix(prefix) for topic in topics if topic.startswith(prefix)), reverse=True)

    def write(self, number: str, records: Iterable[Record]) -> None:
        """Store the records of a new snapshot in this order. Return once all are stored.

        Raises Unreachable, and whatever `records` raises; those not stored by then are given up.
        """
        topic = self._topics.snapshot(number)
        self._admin.create_topic(topic)
        producer = RecordProducer(self._client, topic)
        try:
            for count, record in enumerate(records, 1):
                if count % _AHEAD:
                    producer.publish(encode(record), _ignore)
                else:  # receipts come in order, so this one covers all before it
                    producer.append(encode(record), _RECEIPT_S)
            if not producer.close(_RECEIPT_S):
                raise Unreachable("Pulsar did not confirm a snapshot.", "The next snapshot is made automatically.")
        finally:
            producer.close(0.0)

    def reader(self, number: str) -> TopicReader:
        """Return a reader of a snapshot from its beginning. Raises NotFound."""
        return TopicReader(self._client, self._topics.snapshot(number), ahead=_AHEAD)

    def delete(self, number: str) -> None:
        """Delete a snapshot, even while it is being read."""
        self._admin.delete_topic(self._topics.snapshot(number), force=True)


def _ignore(error: Exception | None, position: str) -> None:
    """Ignore a receipt; that of a later record is waited for."""
