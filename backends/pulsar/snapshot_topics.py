"""Snapshots in Pulsar, each in a topic of its own, so that an old one is deleted as a whole."""

from collections.abc import Iterable

import pulsar

from backends.pulsar.admin import PulsarAdmin
from backends.pulsar.record_producer import RecordProducer
from backends.pulsar.topic_reader import TopicReader
from dispatcher.model.errors import Unreachable
from dispatcher.wire.snapshot import Record, encode
from dispatcher.wire.topics import Topics

_AHEAD = 32
"""Number of records sent ahead of their receipts, or read ahead; about half a MB each."""
_RECEIPT_S = 30.0


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
